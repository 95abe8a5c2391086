"""The models of answers. Unknown fields are ignored, so a newer gateway may send more fields."""

from datetime import datetime
from typing import Any

from pydantic import BaseModel, ConfigDict, Field


class Answer(BaseModel):
    """An answer; it can't be changed."""

    model_config = ConfigDict(frozen=True, extra="ignore")


class Record(Answer):
    """One record of the log: an event of a timer or of its delivery.

    shape:   `position` grows along the log; `intent` is the event, such as TRIGGERED or DELIVERED
    """

    position: int
    recorded_at: datetime
    intent: str
    timer_key: int
    tenant_id: str
    name: str | None
    due_date: datetime
    occurrence: int
    schedule: str | None
    target: str
    payload: Any
    detail: dict[str, Any] | None = Field(description="further facts of this intent, such as the reason of a cancel")


class StoredTimer(Answer):
    """A stored timer."""

    timer_key: int
    due_date: datetime
    outcome: str = Field(
        description="created: a new timer; replaced: another timer had this name; unchanged: the timer already exists"
    )


class Scheduled(StoredTimer):
    """A stored timer, and the record of the timer's end if the timer ended during the wait."""

    end: Record | None = Field(None, description="the record of the timer's end; null: the timer has not ended")


class TimerState(Answer):
    """One timer, pending or ended.

    shape:   `etag` is for `move`; None in a list and over SQL
    """

    timer_key: int
    state: str = Field(description="PENDING or PAUSED, or the timer's end: TRIGGERED, CANCELED or SKIPPED")
    tenant_id: str
    name: str | None
    due_date: datetime
    schedule: str | None
    zone: str | None
    missed: str | None
    occurrence: int = Field(description="the number of this occurrence of its schedule, from 1")
    target: str = Field(description="the target that the firing calls")
    payload: Any
    timer_type: str
    process_instance_key: int | None
    element_instance_key: int | None
    target_element_id: str | None
    created_at: datetime
    changed_at: datetime | None = Field(
        description="the time at which a client last changed the due date; for a paused timer, the time of its pause;"
        " null: never, or the timer has ended"
    )
    resume_at: datetime | None = Field(
        None,
        description="for a paused timer: the end of its pause; null: the pause has no end, or the timer is not paused",
    )
    ended_at: datetime | None
    detail: Any = Field(description="further facts from the timer's last record")
    etag: str | None = None


class Firing(Answer):
    """A past occurrence of a schedule that fired, or several consecutive occurrences that were skipped.

    units:   `late_s` is in seconds from the due date, or from a later change by a client; None for skipped occurrences
    """

    recorded_at: datetime
    intent: str = Field(description="TRIGGERED or SKIPPED")
    due_date: datetime
    occurrence: int
    late_s: float | None = Field(description="the lateness of the firing, in seconds; null: the occurrence was skipped")
    skipped: int = Field(description="the number of occurrences that were skipped together; 0: the occurrence fired")


class Schedule(TimerState):
    """The next occurrence of a schedule, and its last firings."""

    last: Firing | None = Field(description="the last occurrence that fired; null: the log has none")
    skipped: int = Field(description="the number of skipped occurrences among `firings`")
    firings: tuple[Firing, ...] = Field(
        description="at most 30 firings and skips, from the last 100 records with this name, newest first"
    )


class Changed(Answer):
    """A timer after a change.

    shape:   `timer_key` is None over SQL for a timer that was given by name, and `name` is None over HTTP for a timer
             that was given by key. `state` is PENDING, PAUSED, CANCELED, or RESCHEDULED: the timer was moved, and is
             pending. `due_date` is the new date of a moved timer; over SQL it is None, and `get` returns the date
    """

    timer_key: int | None
    name: str | None
    state: str = Field(description="the timer's state after the change")
    due_date: datetime | None = Field(None, description="the due date of a moved timer")


class Line(Answer):
    """The outcome of one of many timers.

    shape:   `line` counts from 1, in the order of the timers. `outcome` is created, replaced, unchanged, refused,
             unknown or untried. `unknown`: the answer was lost, so the timer may be stored. `untried`: the timer was
             not stored, and the caller may send the timer again. `why` is the reason if the timer is not stored, or if
             this is unknown. `code` is the code of a refusal. `replayed`: an earlier line or request had the same
             idempotency key, and the outcome is a copy of its outcome
    """

    line: int
    outcome: str
    timer_key: int | None = None
    due_date: datetime | None = None
    replayed: bool | None = None
    why: str | None = None
    code: str | None = None


class BulkChanged(Answer):
    """The result of a change of many timers."""

    matched: int = Field(description="the number of timers that the filter found")
    changed: int = Field(description="the number of changed timers")
    unsure: int = Field(description="the number of timers with an unknown outcome: Postgres's answer was lost")
    unchanged: int = Field(description="the number of found timers that the verb could not change")
    unchanged_reasons: dict[str, int] = Field(
        description="the number of unchanged timers by reason, as in the operation"
    )
    left_out: int = Field(
        0,
        description="the number of matching timers that are left out, because they belong to jobs and instances of"
        " processes",
    )
    operation_id: int | None = Field(None, description="the number of the operation; null: no timer matched")


class Explained(Answer):
    """The reason why a timer had fired, or had not fired, by the requested moment."""

    moment: datetime
    verdict: str
    why: str
    records: tuple[Record, ...]


class Occurrence(Answer):
    """One future occurrence of a schedule."""

    number: int
    due_date: datetime
    local: str = Field(description="the due date on the clock of the zone")
    note: str | None = Field(description="the effect of a clock change in the zone on this date")


class DeadLetter(Answer):
    """A delivery that was given up, with the failures of its last attempts."""

    timer_key: int
    target: str
    tenant_id: str
    name: str | None
    occurrence: int
    due_date: datetime
    fired_at: datetime
    died_at: datetime
    failed_attempts: int
    reason: str
    payload: Any
    failures: Any = Field(description="the failures of the last attempts")


class DeadLetterGroup(Answer):
    """A group of dead letters with the same target and the same first line of the reason."""

    target: str
    reason_line: str = Field(description="the first line of the reason, which is a filter in other requests")
    dead_letters: int
    since: datetime = Field(description="the time at which the first delivery of the group was given up")
    last_at: datetime = Field(description="the time at which the last delivery of the group was given up")
    tenants: int = Field(1, description="the number of tenants with dead letters of the group")
    tenant_id: str = Field("", description="the tenant of the last dead letter of the group")


class DeadLetterGroups(Answer):
    """The largest groups of the newest dead letters."""

    groups: tuple[DeadLetterGroup, ...] = Field(description="at most 50 groups, the largest first")
    counted: int = Field(description="the number of dead letters that were read: the newest 10,000 at most")
    is_all: bool = Field(description="whether all dead letters were read")


class DeadLettersChanged(Answer):
    """The result of a change of dead letters, or of its dry run."""

    timer_keys: tuple[int, ...] = Field(
        description="the keys of the changed deliveries; for dead letters, the oldest first"
    )
    message: str = Field(description="a sentence that describes the result")
    more: bool = Field(description="whether more dead letters match than this request has changed")
    again_in_s: int = Field(description="the pause, in seconds, before a request for the other matches may succeed")


class EventSubscription(Answer):
    """The kinds of events for operators that an endpoint gets, and the state of the endpoint."""

    endpoint: str = Field(description="the name of the endpoint")
    tenant_id: str
    url: str = Field(
        description="the URL; for a key without the scope operate, without path and query, which may be secrets"
    )
    kinds: tuple[str, ...]
    failures_min: int = Field(
        description="for job.failed: the number of failed runs in a row that causes the first event"
    )
    text_only: bool = Field(description="whether the event's body has only the message's text")
    changed_at: datetime
    disabled_at: datetime | None = Field(description="since when the endpoint is disabled; null: it is enabled")
    disabled_why: str | None
    last_sent_at: datetime | None = Field(description="the last event in the last five minutes; null: there was none")
    waiting: int = Field(description="the number of events that are held until five minutes after the last event")


class EventSubscriptionsPage(Answer):
    """The subscriptions of a tenant's endpoints."""

    subscriptions: tuple[EventSubscription, ...]


class EventSubscriptionChanged(Answer):
    """The result of a change of a subscription."""

    message: str = Field(description="a sentence that describes the result")
    changed: bool = Field(description="whether the request changed anything")


class TimersCounted(Answer):
    """The number of timers that a change would affect, and the token for the real request."""

    matched: int
    left_out: int = Field(
        0,
        description="the number of matching timers that are left out, because they belong to jobs and instances of"
        " processes",
    )
    token: str


class LeasePage(Answer):
    """The leased records of one member of a consumer group, and the token of the lease."""

    records: tuple[Record, ...]
    token: str


class PositionPage(Answer):
    """The position of a consumer group, and the token of its lease if the lease continues."""

    position: int
    token: str | None


class TimersPage(Answer):
    """A page of timers."""

    timers: tuple[TimerState, ...]
    next: str | None = Field(description="the `after` of the next request; null: this is the last page")


class SchedulesPage(Answer):
    """A page of schedules."""

    schedules: tuple[Schedule, ...]
    next: str | None = Field(description="the `after` of the next request; null: this is the last page")


class LogRecordsPage(Answer):
    """A page of the log; an empty page need not be the last page."""

    records: tuple[Record, ...]
    next: int = Field(description="the `after` of the next request")


class RecordsPage(Answer):
    """The last records of a timer."""

    records: tuple[Record, ...]


class PreviewPage(Answer):
    """The next occurrences of a schedule."""

    occurrences: tuple[Occurrence, ...]


class DeadLettersPage(Answer):
    """A page of dead letters."""

    dead_letters: tuple[DeadLetter, ...]
    next: str | None = Field(None, description="the `after` of the next request; null: this is the last page")
