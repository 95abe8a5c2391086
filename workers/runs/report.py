"""The latest report of a run, and the last report that was written."""

from typing import NamedTuple

from shardclock import ReportSnapshot

REPORT_S = 1.0  # the time between two reports of one run


class RunUpdate(NamedTuple):
    """The changes since the last written report; a field is None if its value did not change."""

    progress: float | None
    message: str | None
    log: str | None


class RunReport:
    """Choose the changes to write: at most once a second, and only new values.

    units:   seconds of a monotonic clock
    """

    def __init__(self) -> None:
        self.seen = ReportSnapshot()
        self._sent = ReportSnapshot()
        self._written = ReportSnapshot()
        self._next_s = float("-inf")

    def due(self, now_s: float) -> RunUpdate | None:
        """Return the changes to write now; None: nothing changed, or the last write was less than a second ago."""
        seen, before = self.seen, self._written
        if (seen.report_count, seen.lines) == (before.report_count, before.lines) or now_s < self._next_s:
            return None
        self._sent = seen
        return RunUpdate(seen.progress, seen.message, seen.log if seen.lines != before.lines else None)

    def written(self, now_s: float) -> None:
        """Record that the changes that `due` returned are written."""
        self._written, self._next_s = self._sent, now_s + REPORT_S
