"""The pool of processes for runs, with separate limits for plain runs and for runs that reserve resources."""

import time
from collections import Counter
from collections.abc import Callable
from typing import Protocol

from shardclock.reason import reason_of
from shardclock_server.workers.dependencies import PREFETCH_MAX
from shardclock_server.workers.run_resources import RunResources
from shardclock_server.workers.runs.prefetch import Prefetch
from shardclock_server.workers.runs.process import RunProcess

# While runs are short, a new run waits this long for a busy process; then the pool wakes an idle process.
BUSY_S = 0.005


class PoolClient(Protocol):
    """A run that waits for a process."""

    def receive(self, process: RunProcess, *, was_used: bool) -> None:
        """Receive a process; `was_used`: the process has executed other runs."""

    def refuse(self, reason: str) -> None:
        """Receive the reason why no process can be started."""


class ProcessPool:
    """Lend processes to runs. After a run without a fault, the pool lends the run's process to another run.

    Runs that reserve processors, GPUs or memory have a separate limit, because they may wait for a node for ever and
    must not block plain runs. Both limits are equal. While plain runs are short, up to `prefetch_max` additional runs
    may start before a process is free; these runs get the next free processes in order. Until `hurry` is called, such a
    run waits for a busy process even if another process is idle.
    """

    def __init__(
        self,
        places: int,
        *,
        start: Callable[[RunResources], RunProcess],
        prefetch_max: int = PREFETCH_MAX,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._places = places
        self._start = start
        self._clock = clock
        self._idle: list[tuple[RunResources, RunProcess]] = []
        # The number of runs with a process; the key True counts runs that reserve resources.
        self._in_use: Counter[bool] = Counter()
        self._prefetch = Prefetch(prefetch_max)
        self._waiting: dict[PoolClient, RunResources] = {}

    @property
    def prefetch(self) -> int:
        """Return how many plain runs may start before a process is free."""
        return self._prefetch.runs_max(self._clock())

    @property
    def capacity(self) -> int:
        """Return how many more plain runs may start now."""
        return max(0, self._places + self.prefetch - self._in_use[False] - len(self._waiting))

    @property
    def reserving_capacity(self) -> int:
        """Return how many more runs that reserve resources may start now."""
        return self._places - self._in_use[True]

    def acquire(self, needs: RunResources, client: PoolClient) -> None:
        """Lend an idle or a new process to a run, now or as soon as the limit allows it.

        If no process can be started for a waiting run, the pool calls the run's `refuse` with the reason.

        errors:  any error of Ray  a new process can't be started: the capacity stays free
        """
        has_place = self._in_use[needs.reserves_any] < self._places
        assert has_place or not needs.reserves_any, "the caller has checked the capacity"
        is_to_wait = not has_place or (self._in_use[False] and self.prefetch)
        if needs.reserves_any or not (is_to_wait or self._waiting):
            self._assign(needs, client)
            return
        self._waiting[client] = needs
        if not is_to_wait:
            self._assign_next()

    def hurry(self, client: PoolClient) -> None:
        """Lend an idle or a new process to a waiting run, if the limit allows it."""
        if client in self._waiting and self._in_use[False] < self._places:
            self._assign_to(client)

    def withdraw(self, client: PoolClient, *, timed_out: bool) -> None:
        """Remove a waiting run; `timed_out`: the run has waited too long."""
        self._waiting.pop(client, None)
        if timed_out:
            self._prefetch.stop(self._clock())

    def release(
        self, needs: RunResources, process: RunProcess, *, is_reusable: bool, took_s: float | None = None
    ) -> None:
        """Take a process back; kill a process that had a fault or reserves resources.

        `took_s` is the duration of the run.
        """
        self._in_use[needs.reserves_any] -= 1
        if took_s is not None and not needs.reserves_any:
            self._prefetch.record(took_s, now_s=self._clock())
        if is_reusable and not needs.reserves_any:
            self._idle.append((needs, process))
        else:
            process.kill()
        if not needs.reserves_any:
            self._assign_next()

    def end(self) -> None:
        """Kill the idle processes, and remove all waiting runs."""
        for _, process in self._idle:
            process.kill()
        self._idle.clear()
        self._waiting.clear()

    def _assign_next(self) -> None:
        while self._waiting and self._in_use[False] < self._places:
            if self._assign_to(next(iter(self._waiting))):
                return

    def _assign_to(self, client: PoolClient) -> bool:
        try:
            self._assign(self._waiting.pop(client), client)
        except Exception as error:  # noqa: BLE001 - an error of Ray must not stop the other runs
            client.refuse(not_started(error))
            return False
        return True

    def _assign(self, needs: RunResources, client: PoolClient) -> None:
        process, was_used = self._find(needs)
        self._in_use[needs.reserves_any] += 1
        client.receive(process, was_used=was_used)

    def _find(self, needs: RunResources) -> tuple[RunProcess, bool]:
        # Prefer the process that became idle last, because a process that was idle for longer wakes more slowly.
        for number in reversed(range(len(self._idle))):
            had, process = self._idle[number]
            if had == needs:
                del self._idle[number]
                return process, True
        if not needs.reserves_any and len(self._idle) >= self._places - self._in_use[False]:
            _, oldest = self._idle.pop(0)
            oldest.kill()
        return self._start(needs), False


def not_started(error: Exception) -> str:
    """Return a message about the failed start of a process."""
    return f"its process can't be started: {reason_of(error)}"
