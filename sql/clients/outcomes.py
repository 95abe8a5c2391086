"""The outcomes of scheduling a timer: stored, or refused with a message."""

from dataclasses import dataclass
from datetime import datetime
from typing import Self

from shardclock.api.codes import REFUSED, UNAVAILABLE, RefusalCode


@dataclass(frozen=True, slots=True)
class Scheduled:
    """One timer that is stored.

    `outcome` is `created`, `replaced` (the new timer replaced a timer with the same name) or `unchanged` (a timer with
    the same name exists, and did not change).

    `replayed`: an earlier request with the same idempotency key has this outcome, so this call wrote nothing.
    """

    timer_key: int
    due_date: datetime
    outcome: str = "created"
    replayed: bool = False


@dataclass(frozen=True, slots=True)
class Refused:
    """The refusal of one timer, with its message and code; the timer was not written."""

    why: str
    code: RefusalCode = REFUSED

    @classmethod
    def of(cls, code: RefusalCode, **fields: object) -> Self:
        """Return the refusal with a code's standard text."""
        return cls(code.sentence(**fields), code)


@dataclass(frozen=True, slots=True)
class Untried(Refused):
    """One timer that was not written, for a reason that will pass. The caller sends the timer again."""

    code: RefusalCode = UNAVAILABLE


@dataclass(frozen=True, slots=True)
class KeyTaken(Refused):
    """One timer that was not written, because another timer has its key. The caller tries again with another key."""


@dataclass(frozen=True, slots=True)
class Locked(Untried):
    """One timer that was not written, because an open transaction has locked its name.

    The caller sends the timer again.
    """
