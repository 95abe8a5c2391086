"""What a run has said, and what of it is written."""

from typing import NamedTuple

from shardclock import Seen

REPORT_S = 1.0  # between two reports of one run


class Report(NamedTuple):
    """What a run has said since the last report; None: nothing."""

    progress: float | None
    message: str | None
    log: str | None


class RunReport:
    """Say what is to be written of what a run has said: only what is new, and once a second.

    units:   moments are of a monotonic clock, in seconds
    """

    def __init__(self) -> None:
        self.seen = Seen()
        self._sent = Seen()
        self._written = Seen()
        self._next_s = float("-inf")

    def due(self, now_s: float) -> Report | None:
        """Return what is to be written now; None: nothing."""
        seen, before = self.seen, self._written
        if (seen.said, seen.lines) == (before.said, before.lines) or now_s < self._next_s:
            return None
        self._sent = seen
        return Report(seen.progress, seen.message, seen.log if seen.lines != before.lines else None)

    def written(self, now_s: float) -> None:
        """Note that what was due last is written."""
        self._written, self._next_s = self._sent, now_s + REPORT_S
