"""Hold what a job's function learns about its run, and what it can say while it runs."""

import threading
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any, Generic

from shardclock.captured import Lines
from shardclock.reason import one_line
from shardclock.refusal import shown

# As with a timer's payload: a plain `Run` has any configuration.
if TYPE_CHECKING:
    from typing_extensions import TypeVar

    ConfigT_co = TypeVar("ConfigT_co", covariant=True, default=Any)
else:
    from typing import TypeVar

    ConfigT_co = TypeVar("ConfigT_co", covariant=True)


class RunCanceled(BaseException):
    """Tell a run that it is to end: somebody cancelled it, or it took too long.

    It is no `Exception`, as `asyncio.CancelledError` is none: who catches what work raises lets it pass.
    """


@dataclass(eq=False, slots=True)
class Told:
    """Hold what a run has said so far, and whether it is to end; read and written by several threads."""

    progress: float | None = None
    message: str | None = None
    said: int = 0  # how often it has told its progress
    lines: Lines = field(default_factory=Lines)
    is_to_end: threading.Event = field(default_factory=threading.Event)


@dataclass(frozen=True, slots=True)
class Run(Generic[ConfigT_co]):
    """Hold one run of a job.

    shape:   `run_id` is unique for ever; `attempt` counts from 1, and only a start that failed has a second;
             `scheduled_at` is when this start was due, aware
    """

    job: str
    run_id: str
    attempt: int
    scheduled_at: datetime
    config: ConfigT_co
    told: Told = field(repr=False, default_factory=Told)

    @property
    def canceled(self) -> bool:
        """Say whether the run is to end: a plain function that looks at this ends in time."""
        return self.told.is_to_end.is_set()

    def progress(self, fraction: object, message: object = None) -> None:
        """Tell how much is done, from 0 to 1, and what is being done.

        errors:  RunCanceled  the run is to end: let it pass
                 ValueError   the fraction is no number from 0 to 1
        """
        if isinstance(fraction, bool) or not isinstance(fraction, int | float) or not 0 <= fraction <= 1:
            raise ValueError(f"progress {shown(fraction)} is refused: it must be a number from 0 to 1")
        told = self.told
        told.progress, told.message = float(fraction), None if message is None else one_line(str(message))
        told.said += 1
        if self.canceled:
            raise RunCanceled("the run is to end")

    def log(self, line: object) -> None:
        """Keep a line for `shardclock jobs logs`; what is printed is kept, too."""
        self.told.lines.add(str(line))
