"""The processes in which a worker makes runs, as many at a time as it has places."""

from collections.abc import Callable

from workers.runs.process import Needs, RunProcess


class Places:
    """Lend processes to runs; one that has ended its run well is lent again."""

    def __init__(self, most: int, *, start: Callable[[Needs], RunProcess]) -> None:
        self._most = most
        self._start = start
        self._idle: list[tuple[Needs, RunProcess]] = []
        self._lent = 0
        self._waiting: list[RunProcess] = []  # for a node that has what they ask for

    @property
    def free(self) -> int:
        """Return how many more runs can be made now."""
        return max(0, self._most - self._lent)

    @property
    def may_wait(self) -> bool:
        """Say whether another run may wait for a node: it takes up no place meanwhile, but a process of Ray's."""
        return len(self._waiting) < self._most

    def take(self, needs: Needs) -> tuple[RunProcess, bool]:
        """Lend a process: one that was given back, or a new one; say whether it was used before.

        One that reserves something takes up its place once it is `ready`: perhaps no node ever has what it asks for.
        """
        assert self.free, "who takes has asked whether there is a place"
        if needs.are_special:
            process = self._start(needs)
            self._waiting.append(process)
            return process, False
        self._lent += 1
        for place, (had, process) in enumerate(self._idle):
            if had == needs:
                del self._idle[place]
                return process, True
        self._end_surplus()
        return self._start(needs), False

    def is_ready(self, process: RunProcess) -> None:
        """Take note that a process has been found a node."""
        if process in self._waiting:
            self._waiting.remove(process)
            self._lent += 1
            self._end_surplus()

    def give_back(self, needs: Needs, process: RunProcess, *, is_well: bool) -> None:
        """Take a process back; end it unless it is well and keeps nothing from others."""
        if process in self._waiting:
            self._waiting.remove(process)
        else:
            self._lent -= 1
        if is_well and not needs.are_special:
            self._idle.append((needs, process))
        else:
            process.kill()

    def end(self) -> None:
        """End all processes that wait."""
        for _, process in self._idle:
            process.kill()
        self._idle.clear()

    def _end_surplus(self) -> None:
        if self._idle and len(self._idle) + self._lent > self._most:
            _, oldest = self._idle.pop(0)
            oldest.kill()
