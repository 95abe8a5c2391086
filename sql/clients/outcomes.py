"""What becomes of a timer that a client schedules: it is stored, or it isn't for a reason that has a name."""

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class Scheduled:
    """One timer that is stored now.

    outcome: `created`; `replaced`, if it replaced a timer of the same name; or `unchanged`, if that timer stays instead

    `replayed` says that this is the answer which the same request got before: nothing was written now.
    """

    timer_key: int
    due_date: datetime
    outcome: str = "created"
    replayed: bool = False


@dataclass(frozen=True, slots=True)
class Refused:
    """One timer that was not accepted, and the sentence that says why."""

    why: str


@dataclass(frozen=True, slots=True)
class Untried(Refused):
    """One timer that was not written now, for a reason that passes: send it again."""


@dataclass(frozen=True, slots=True)
class NameTaken(Refused):
    """One timer that was not written, because a pending timer of its tenant has its name."""


@dataclass(frozen=True, slots=True)
class RequestInFlight(Untried):
    """One timer that was not written, because the same request is being answered at this moment."""


@dataclass(frozen=True, slots=True)
class RequestDiffers(Refused):
    """One timer that was not written, because its request's key came with another request before."""


@dataclass(frozen=True, slots=True)
class KeyTaken(Refused):
    """One timer that was not written, because its key now belongs to another timer: try again with another key."""


@dataclass(frozen=True, slots=True)
class Locked(Untried):
    """One timer that was not written, because a transaction that has not ended holds its name: try again alone."""
