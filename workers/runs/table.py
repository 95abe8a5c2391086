"""The runs of one worker: leases, tasks, and the advances (new states) and ends that are not written yet."""

import asyncio
from collections.abc import Callable, Collection, Coroutine, Hashable, Iterable, Sequence
from itertools import islice
from typing import Any, TypeVar

from shardclock_server.jobs.next_attempt import RunEnding, StopReason
from shardclock_server.jobs.states import JobStateName
from shardclock_server.sql.deliveries.claim import Claim, Renewal
from shardclock_server.sql.jobs.runs import BegunRun, EndedRun
from shardclock_server.workers.lease_table import LeaseTable
from shardclock_server.workers.runs.lifetime import MARGIN_S
from shardclock_server.workers.runs.live import LiveRun

Advance = tuple[BegunRun, str, str | None]  # a run, its new state, and the reason

T = TypeVar("T")


class RunTable:
    """The state of a worker's runs, from the claim until Postgres has stored the end.

    A run has a lease from its claim until Postgres has stored the run's end, or until the run is lost. A run is live
    while it waits for a process or has a process. A lost run has no lease, but may still be live for a moment.

    units:   seconds of a monotonic clock
    """

    def __init__(self, lease_s: float) -> None:
        self.lease_s = lease_s
        self._leases = LeaseTable[BegunRun]()
        self._live: dict[Claim, LiveRun] = {}
        self._making: dict[Claim, asyncio.Task[None]] = {}
        self._without_node: set[Claim] = set()
        self._called_s: dict[Claim, float] = {}
        self._unshown: dict[Claim, BegunRun] = {}  # Called runs; their state RUNNING is not written yet.
        self._advances: list[Advance] = []
        self._ends: list[EndedRun] = []

    def __len__(self) -> int:
        """Count the leased runs."""
        return len(self._leases)

    @property
    def timer_keys(self) -> list[int]:
        """Return the keys of all runs that are leased or live."""
        return [key for key, _ in {*self._live, *self._leases.claims}]

    @property
    def live(self) -> list[LiveRun]:
        """Return the live runs."""
        return list(self._live.values())

    @property
    def tasks(self) -> set[asyncio.Task[None]]:
        """Return the tasks of the live runs."""
        return set(self._making.values())

    @property
    def ending(self) -> list[int]:
        """Return the keys of the runs with unwritten ends."""
        return [it.run.timer_key for it in self._ends]

    @property
    def awaits_node(self) -> bool:
        """Return whether a run waits for a node with its resources."""
        return bool(self._without_node)

    def take(self, begun: Iterable[BegunRun], *, now_s: float) -> None:
        """Add the leases of started runs."""
        self._leases.take(begun, now_s=now_s)

    def make(self, live: LiveRun, made: Coroutine[Any, Any, None], *, awaits_node: bool) -> None:
        """Start a run's task. The coroutine `made` must call `end_making` before it ends."""
        claim = live.run.claim
        if awaits_node:
            self._without_node.add(claim)
        self._live[claim] = live
        self._making[claim] = asyncio.create_task(made, name=live.run.run_id)

    def call(self, run: BegunRun, *, now_s: float) -> None:
        """Record that a run's function is called, so the run no longer waits for a node."""
        self._without_node.discard(run.claim)
        self._called_s[run.claim], self._unshown[run.claim] = now_s, run

    def forget_call(self, run: BegunRun) -> None:
        """Remove the record of a call, because the function was not called, or another worker has the run."""
        self._called_s.pop(run.claim, None)
        self._unshown.pop(run.claim, None)

    def called_s(self, run: BegunRun, *, now_s: float) -> float | None:
        """Return the time since the call of a run's function; None: there is no record of a call."""
        began_s = self._called_s.get(run.claim)
        return None if began_s is None else now_s - began_s

    def is_unshown(self, run: BegunRun) -> bool:
        """Return whether the run was called and its state RUNNING is not yet written."""
        return run.claim in self._unshown

    def show(self, *, called_until_s: float) -> None:
        """Add the advance to RUNNING for all runs that were called before a moment."""
        for run in list(self._unshown.values()):
            if self._called_s[run.claim] <= called_until_s:
                self._show(run)

    def terminate(self, run: BegunRun, reason: str) -> None:
        """Add the advance to TERMINATING for a run."""
        if self.is_unshown(run):
            self._show(run)
        self._advances.append((run, JobStateName.TERMINATING.value, reason))

    def end(self, ended: EndedRun) -> None:
        """Add the end of a run."""
        self._ends.append(ended)

    def advances(self, locked: Collection[Claim]) -> list[Advance]:
        """Return the first unwritten advance of each run, except runs of locked jobs."""
        return _first_of_each((it for it in self._advances if it[0].claim not in locked), key=lambda it: it[0].claim)

    def advance(self, written: Collection[Advance], locked: Collection[Claim]) -> None:
        """Remove written advances; keep the advances of locked jobs, because these were not written."""
        self._advances = [it for it in self._advances if it not in written or it[0].claim in locked]

    def ends(self, most: int, locked: Collection[Claim]) -> list[EndedRun]:
        """Return at most one of the first `most` unwritten ends for each job that is not locked."""
        first = (it for it in islice(self._ends, most) if it.run.claim not in locked)
        return _first_of_each(first, key=lambda it: it.run.job)

    def end_making(self, claim: Claim) -> None:
        """Remove a live run, because its task has finished."""
        self._live.pop(claim, None)
        self._making.pop(claim, None)
        self._without_node.discard(claim)

    def drop(self, runs: Sequence[BegunRun]) -> None:
        """Remove runs after Postgres has stored their ends."""
        claims = {run.claim for run in runs}
        self._ends = [it for it in self._ends if it.run.claim not in claims]
        self._advances = [it for it in self._advances if it[0].claim not in claims]
        for run in runs:
            self.forget_call(run)
        self._leases.drop(runs)

    def to_renew(self, now_s: float) -> list[BegunRun]:
        """Return the runs that need a renewal: the last renewal is older than a quarter of the lease's duration."""
        return self._leases.renewed_before(now_s - self.lease_s / 4)

    def renew(self, asked: Sequence[BegunRun], renewal: Renewal, *, now_s: float) -> list[LiveRun]:
        """Record the renewed leases; return the live runs that have lost their lease.

        If a delivery is locked, its lease is not renewed, but its run continues, because no other worker can claim a
        locked delivery. If the lease expires during the lock, the run's process exits, because another worker may claim
        the delivery when the lock is released.
        """
        self._leases.renew((run for run in asked if run.claim in renewal.renewed), now_s=now_s)
        lost = list[LiveRun]()
        for run in asked:
            live = self._live.get(run.claim)
            if run.claim in renewal.renewed:
                if live is not None:
                    live.life.lease_until_s = now_s + self.lease_s - MARGIN_S
            elif run.claim not in renewal.locked:
                self._leases.drop([run])
                if live is not None:
                    lost.append(live)
        return lost

    def is_under_way(self, live: LiveRun) -> bool:
        """Return whether a run is live."""
        return live.run.claim in self._live

    def lose(self, live: LiveRun) -> None:
        """Remove a run that another worker has claimed, or may soon claim."""
        self._leases.drop([live.run])
        live.lose()

    def request_ends(self, why: StopReason, reason: str) -> None:
        """Request the ends of all live runs."""
        for it in self._live.values():
            it.request_end(why, reason)

    async def break_off(self, reason: str) -> list[tuple[LiveRun, RunEnding]]:
        """Cancel all live runs; return each run with its ending."""
        for task in self._making.values():
            task.cancel()
        await asyncio.gather(*self._making.values(), return_exceptions=True)
        live = self.live
        endings = await asyncio.gather(*(it.break_off(reason) for it in live))
        self._live.clear()
        return list(zip(live, endings, strict=True))

    def _show(self, run: BegunRun) -> None:
        del self._unshown[run.claim]
        self._advances.append((run, JobStateName.RUNNING.value, None))


def _first_of_each(items: Iterable[T], key: Callable[[T], Hashable]) -> list[T]:
    first: dict[Hashable, T] = {}
    for it in items:
        first.setdefault(key(it), it)
    return list(first.values())
