"""The argument of a job's function: facts about the run, and methods that report its progress."""

import threading
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any, Generic

from shardclock.captured import Lines
from shardclock.reason import one_line
from shardclock.refusal import shown

# `Run` without a type parameter accepts any configuration, as `Timer` accepts any payload.
if TYPE_CHECKING:
    from typing_extensions import TypeVar

    ConfigT_co = TypeVar("ConfigT_co", covariant=True, default=Any)
else:
    from typing import TypeVar

    ConfigT_co = TypeVar("ConfigT_co", covariant=True)


class RunCanceled(BaseException):
    """A run was cancelled by an operator, or because the run took too long.

    Like `asyncio.CancelledError`, this class does not derive from `Exception`, so `except Exception` does not catch it.
    """


@dataclass(eq=False, slots=True)
class RunReports:
    """The reports of a run, and whether the run was cancelled; this object is safe for several threads."""

    progress: float | None = None
    message: str | None = None
    report_count: int = 0  # the number of reports of progress
    lines: Lines = field(default_factory=Lines)
    cancel_requested: threading.Event = field(default_factory=threading.Event)


@dataclass(frozen=True, slots=True)
class Run(Generic[ConfigT_co]):
    """One run of a job.

    shape:   run_id        unique for ever
             attempt       counts from 1; above 1 only after a failed attempt of the same start
             scheduled_at  the due date of this start, aware
    """

    job: str
    run_id: str
    attempt: int
    scheduled_at: datetime
    config: ConfigT_co
    reports: RunReports = field(repr=False, default_factory=RunReports)

    @property
    def canceled(self) -> bool:
        """Whether the run was cancelled; a plain function should check this property regularly."""
        return self.reports.cancel_requested.is_set()

    def progress(self, fraction: object, message: object = None) -> None:
        """Report the completed fraction of the work, from 0 to 1, and the present activity.

        errors:  RunCanceled  the run was cancelled: don't catch this exception.
                 ValueError   the fraction is not a number from 0 to 1.
        """
        if isinstance(fraction, bool) or not isinstance(fraction, int | float) or not 0 <= fraction <= 1:
            raise ValueError(f"progress {shown(fraction)} is refused: it must be a number from 0 to 1")
        reports = self.reports
        reports.progress, reports.message = float(fraction), None if message is None else one_line(str(message))
        reports.report_count += 1
        if self.canceled:
            raise RunCanceled("the run must end")

    def log(self, line: object) -> None:
        """Add a line to `shardclock jobs logs`, which also shows printed text."""
        self.reports.lines.add(str(line))
