"""The argument of a handler: the facts about the timer that fired."""

from collections.abc import Iterable
from dataclasses import dataclass, fields, make_dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Generic

# `Timer` without a type parameter accepts any payload. Type checkers support defaults of type variables; Python
# supports them since version 3.13.
if TYPE_CHECKING:
    from typing_extensions import TypeVar

    PayloadT_co = TypeVar("PayloadT_co", covariant=True, default=Any)
else:
    from typing import TypeVar

    PayloadT_co = TypeVar("PayloadT_co", covariant=True)


@dataclass(frozen=True, slots=True)
class Timer(Generic[PayloadT_co]):
    """A fired timer, as a handler gets it for one attempt.

    A handler may get the same timer more than once, with the same `timer_key`, so the handler must be idempotent.

    shape:   timer_key            unique for ever, also among the occurrences of a schedule
             occurrence, attempt  count from 1
             schedule             the rule's text; None: no rule
             due_date, fired_at   aware
    """

    timer_key: int
    due_date: datetime
    fired_at: datetime
    occurrence: int
    attempt: int
    tenant_id: str
    target: str
    timer_type: str
    name: str | None
    schedule: str | None
    target_element_id: str | None
    process_instance_key: int | None
    element_instance_key: int | None
    payload: PayloadT_co


_BASES: Any = (Generic[PayloadT_co],)  # type: ignore[index]
_UnfrozenTimer: Any = make_dataclass("_UnfrozenTimer", [it.name for it in fields(Timer)], bases=_BASES, slots=True)


def timer_of(values: Iterable[Any]) -> "Timer[Any]":
    """Create a timer from the values of its fields, in the order of the fields.

    A frozen dataclass sets each field with a function call; together these calls take longer than a short handler. This
    function therefore sets the fields in an object of a class with the same layout, and then changes the object's class
    to the frozen class.
    """
    timer = _UnfrozenTimer(*values)
    timer.__class__ = Timer
    return timer  # type: ignore[no-any-return]


def with_payload(timer: "Timer[Any]", payload: Any) -> "Timer[Any]":
    """Replace the payload of a timer before a handler gets the timer."""
    # Replace the payload in the same object, because a new object would take more time than the parsing.
    object.__setattr__(timer, "payload", payload)
    return timer
