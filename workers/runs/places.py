"""The processes in which a worker makes runs. Plain runs and those that reserve something have places of their own."""

from collections import Counter
from collections.abc import Callable

from workers.runs.needs import Needs
from workers.runs.process import RunProcess


class Places:
    """Lend processes to runs; one that has ended its run well is lent again.

    Runs that reserve processors, GPUs or memory have places of their own, as many: perhaps no node ever has what they
    ask for, and then they keep no other run waiting.
    """

    def __init__(self, most: int, *, start: Callable[[Needs], RunProcess]) -> None:
        self._most = most
        self._start = start
        self._idle: list[tuple[Needs, RunProcess]] = []
        self._lent: Counter[bool] = Counter()  # by whether they reserve something

    @property
    def free(self) -> int:
        """Return how many more runs can be made now that reserve nothing."""
        return self._most - self._lent[False]

    @property
    def free_reserving(self) -> int:
        """Return how many more runs can be made now that reserve something."""
        return self._most - self._lent[True]

    def take(self, needs: Needs) -> tuple[RunProcess, bool]:
        """Lend a process: one that was given back, or a new one; say whether it was used before.

        errors:  any of Ray's  a new one can't be started: its place is free as before
        """
        assert self._lent[needs.are_special] < self._most, "who takes has asked whether there is a place"
        for place, (had, process) in enumerate(self._idle):
            if had == needs:
                del self._idle[place]
                self._lent[needs.are_special] += 1
                return process, True
        if not needs.are_special and len(self._idle) >= self.free:
            _, oldest = self._idle.pop(0)
            oldest.kill()
        process = self._start(needs)
        self._lent[needs.are_special] += 1
        return process, False

    def give_back(self, needs: Needs, process: RunProcess, *, is_well: bool) -> None:
        """Take a process back; end it unless it is well and keeps nothing from others."""
        self._lent[needs.are_special] -= 1
        if is_well and not needs.are_special:
            self._idle.append((needs, process))
        else:
            process.kill()

    def end(self) -> None:
        """End the idle processes."""
        for _, process in self._idle:
            process.kill()
        self._idle.clear()
