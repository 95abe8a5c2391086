"""Keep the recording of a run of jobs under faults."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from chaos.history.faults import Fault


class Line(NamedTuple):
    """A line that a job's function wrote.

    `event` is `begin` or `beat`; in the last line it is `end`, `raise` (the function raised an error) or `break` (the
    run was stopped).
    """

    event: str
    job: str
    run: str
    at: float
    pid: int


class RunRecord(NamedTuple):
    """One log record about a run: STARTING, or an end record with the outcome, the reason and the job's next start.

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
    """The counts of one job in the table of jobs, and whether the job is marked as running."""

    job: str
    runs: int
    successes: int
    failures: int
    crashes: int
    is_marked: bool


@dataclass(frozen=True, slots=True)
class JobsRecord:
    """The recording of a run of the rig.

    `lines` are in the order of writing; `changes` are in the order of the log.

    At `warm_at`, each job has finished a run, so each job has a process. The first fault begins later. At
    `watched_until`, long after the last fault, the rig disabled the jobs. `takes_s` is the length of a job's run plus
    the pause after the run, without faults. The jobs in `counted_from_end` have an interval, which counts from the end
    of a run.
    """

    lines: Sequence[Line]
    changes: Sequence[RunRecord]
    counted: Sequence[Counted]
    faults: Sequence[Fault]
    takes_s: Mapping[str, float]
    counted_from_end: Collection[str]
    warm_at: float
    watched_until: float

    @property
    def starts(self) -> list[RunRecord]:
        """Return the starts of runs."""
        return [it for it in self.changes if it.outcome is None]

    @property
    def ends(self) -> list[RunRecord]:
        """Return the ends of runs."""
        return [it for it in self.changes if it.outcome is not None]
