"""What a run of jobs under faults has recorded."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from chaos.history import Fault


class Line(NamedTuple):
    """What a job's function wrote down: begin, beat, and end, raise (its own error) or break (it was told to end)."""

    what: str
    job: str
    run: str
    at: float
    pid: int


class Change(NamedTuple):
    """One record of the log about a run: STARTING, or with an outcome its end, why, and when the job starts next.

    units:   moments are seconds since 1970
    """

    position: int
    at: float
    job: str
    run: str
    outcome: str | None
    reason: str | None = None
    next_start: float | None = None


class Counted(NamedTuple):
    """What the table of jobs counts of one job, and whether it still bears the mark of a run."""

    job: str
    runs: int
    successes: int
    failures: int
    crashes: int
    is_marked: bool


@dataclass(frozen=True, slots=True)
class JobsRecord:
    """All of it. `lines` stand in the order in which they were written, `changes` in that of the log.

    Each job has made a run by `warm_at`, and so has a process; the first fault comes later. `watched_until` is when the
    jobs were disabled, long after the last fault. `takes_s` says how long a job's run and the pause after it take
    together, if nothing is broken. The jobs in `counted_from_end` have an interval, which counts from the end of a run.
    """

    lines: Sequence[Line]
    changes: Sequence[Change]
    counted: Sequence[Counted]
    faults: Sequence[Fault]
    takes_s: Mapping[str, float]
    counted_from_end: Collection[str]
    warm_at: float
    watched_until: float

    @property
    def starts(self) -> list[Change]:
        """Return when runs were begun."""
        return [it for it in self.changes if it.outcome is None]

    @property
    def ends(self) -> list[Change]:
        """Return how runs ended."""
        return [it for it in self.changes if it.outcome is not None]
