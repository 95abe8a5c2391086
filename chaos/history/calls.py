"""Record the calls of clients and handlers, with the answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, NamedTuple

Outcome = Literal["ok", "fail", "unknown"]


@dataclass(frozen=True, slots=True)
class TimerRequest:
    """One timer or schedule in a client's call.

    `due_date` is set if the client gave a date. `delay_s` is set if the client gave a delay, which counts from the
    moment at which Postgres wrote the row. `rule` is an ISO 8601 repeat or a cron rule. `poison` marks a timer that
    can't be fired. `target` is the target of the firing.
    """

    timer_key: int
    name: str | None = None
    due_date: datetime | None = None
    delay_s: float | None = None
    rule: str | None = None
    payload: str | None = None
    poison: bool = False
    target: str = "log"


@dataclass(frozen=True, slots=True)
class Call:
    """One call of a client, with its answer.

    The verb `schedule` sends `timers` with random keys. `cancel`, `reschedule` and `pause` name one timer, by
    `timer_key` or by `name` within the tenant. A reschedule sets the due date to `delay_s` from now, and a pause lasts
    for `delay_s`. The verbs of a `process` are `start` (`name` is the idempotency key), `complete` (a task, by
    `task_key`), `publish` (a message; `name` is the correlation key) and `stop` (cancel an instance). `instance_key` is
    the instance that the call names, or that a start returned. `resends` is the number of the call that this call
    repeats with the same keys. `answer` is the state that a verb returned (CANCELED, TRIGGERED, UNKNOWN ...). `refused`
    has the refused keys of a `schedule`.

    units:   moments are seconds since 1970 by the rig's clock; `ended_at` is None if the call did not return
    shape:   the outcome is `ok` if the answer arrived, `fail` if the call was refused without an effect, and `unknown`
             after a lost connection or a timeout
    """

    number: int
    verb: Literal["schedule", "cancel", "reschedule", "pause", "start", "complete", "publish", "stop"]
    tenant_id: str
    began_at: float
    ended_at: float | None
    outcome: Outcome
    timers: Sequence[TimerRequest] = ()
    timer_key: int | None = None
    name: str | None = None
    delay_s: float | None = None
    answer: str | None = None
    refused: Sequence[int] = ()
    resends: int | None = None
    error: str | None = None
    process: str | None = None
    instance_key: int | None = None
    task_key: int | None = None


class HandlerCall(NamedTuple):
    """One call of a handler, which the handler itself recorded before its action; `body` is a hash of the payload."""

    timer_key: int
    target: str
    tenant_id: str
    occurrence: int
    attempt: int
    body: str
    began_at: float
    pid: int
