"""The processes in which a worker makes runs. Plain runs and those that reserve something have places of their own."""

import time
from collections import Counter
from collections.abc import Callable
from typing import Protocol

from shardclock.reason import reason_of
from shardclock_server.workers.needs import Needs
from shardclock_server.workers.runs.ahead import RunAhead
from shardclock_server.workers.runs.process import RunProcess
from shardclock_server.workers.surroundings import AHEAD_MAX

BUSY_S = 0.005  # while short runs end, a new one waits so long for a process that is busy, before it wakes an idle one


class Borrower(Protocol):
    """A run that needs a process."""

    def lend(self, process: RunProcess, *, was_used: bool) -> None:
        """Take a process; `was_used` says that it has made other runs."""

    def refuse(self, reason: str) -> None:
        """Hear that there is none."""


class Places:
    """Lend processes to runs; one that has ended its run well is lent again.

    Runs that reserve processors, GPUs or memory have places of their own, as many: perhaps no node ever has what they
    ask for, and then they keep no other run waiting. While runs that reserve nothing are short, up to `ahead_max` may
    be begun ahead, and get a process when one is free, the first of them first. Such a run waits for a process that is
    busy, rather than for one that must wake up, until somebody tells it to hurry.
    """

    def __init__(
        self,
        most: int,
        *,
        start: Callable[[Needs], RunProcess],
        ahead_max: int = AHEAD_MAX,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._most = most
        self._start = start
        self._clock = clock
        self._idle: list[tuple[Needs, RunProcess]] = []
        self._lent: Counter[bool] = Counter()  # by whether they reserve something
        self._ahead = RunAhead(ahead_max)
        self._waiting: dict[Borrower, Needs] = {}

    @property
    def ahead(self) -> int:
        """Return how many runs that reserve nothing may be begun beyond those that have a place."""
        return self._ahead.most(self._clock())

    @property
    def room(self) -> int:
        """Return how many more runs may be begun now that reserve nothing."""
        return max(0, self._most + self.ahead - self._lent[False] - len(self._waiting))

    @property
    def room_reserving(self) -> int:
        """Return how many more runs may be begun now that reserve something."""
        return self._most - self._lent[True]

    def take(self, needs: Needs, borrower: Borrower) -> None:
        """Lend a process to a run, one that was given back, or a new one: now, or when a place is free.

        A run for which none can be started hears of it, if it has waited.

        errors:  any of Ray's  a new one can't be started: its place is free as before
        """
        has_place = self._lent[needs.are_special] < self._most
        assert has_place or not needs.are_special, "who takes has asked whether there is room"
        is_to_wait = not has_place or (self._lent[False] and self.ahead)
        if needs.are_special or not (is_to_wait or self._waiting):
            self._lend(needs, borrower)
            return
        self._waiting[borrower] = needs
        if not is_to_wait:
            self._lend_to_next()

    def hurry(self, borrower: Borrower) -> None:
        """Let a run wait no longer for a busy process: lend it an idle one or a new one, if there is a place."""
        if borrower in self._waiting and self._lent[False] < self._most:
            self._lend_to(borrower)

    def give_up(self, borrower: Borrower, *, in_vain: bool) -> None:
        """Let a run wait no longer that has got no process; `in_vain` says that it has waited for long."""
        self._waiting.pop(borrower, None)
        if in_vain:
            self._ahead.stop(self._clock())

    def give_back(self, needs: Needs, process: RunProcess, *, is_well: bool, took_s: float | None = None) -> None:
        """Take a process back; end it unless it is well and keeps nothing from others. Its run took so long."""
        self._lent[needs.are_special] -= 1
        if took_s is not None and not needs.are_special:
            self._ahead.learn(took_s, now_s=self._clock())
        if is_well and not needs.are_special:
            self._idle.append((needs, process))
        else:
            process.kill()
        if not needs.are_special:
            self._lend_to_next()

    def end(self) -> None:
        """End the idle processes, and lend none any more to those that wait."""
        for _, process in self._idle:
            process.kill()
        self._idle.clear()
        self._waiting.clear()

    def _lend_to_next(self) -> None:
        while self._waiting and self._lent[False] < self._most:
            if self._lend_to(next(iter(self._waiting))):
                return

    def _lend_to(self, borrower: Borrower) -> bool:
        try:
            self._lend(self._waiting.pop(borrower), borrower)
        except Exception as error:  # noqa: BLE001 - whatever Ray says, the other runs go on
            borrower.refuse(not_started(error))
            return False
        return True

    def _lend(self, needs: Needs, borrower: Borrower) -> None:
        process, was_used = self._found(needs)
        self._lent[needs.are_special] += 1
        borrower.lend(process, was_used=was_used)

    def _found(self, needs: Needs) -> tuple[RunProcess, bool]:
        for place in reversed(range(len(self._idle))):  # the last that was used: it wakes up soonest
            had, process = self._idle[place]
            if had == needs:
                del self._idle[place]
                return process, True
        if not needs.are_special and len(self._idle) >= self._most - self._lent[False]:
            _, oldest = self._idle.pop(0)
            oldest.kill()
        return self._start(needs), False


def not_started(error: Exception) -> str:
    """Say why a process could not be started."""
    return f"its process can't be started: {reason_of(error)}"
