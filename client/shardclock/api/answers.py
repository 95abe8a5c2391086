"""Hold what is answered. Fields that are not known here are left out, so a newer gateway may have more."""

from datetime import datetime
from typing import Any

from pydantic import BaseModel, ConfigDict, Field


class Answer(BaseModel):
    """Hold something that was answered; it can't be changed."""

    model_config = ConfigDict(frozen=True, extra="ignore")


class Record(Answer):
    """Hold one event of a timer or of its delivery, as it stands in the log.

    shape:   `position` only grows along the log; `intent` is what happened, such as TRIGGERED or DELIVERED
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
    detail: dict[str, Any] | None = Field(description="what this intent adds, such as the reason of a cancel")


class Stored(Answer):
    """Hold a timer that was asked for, and is stored now."""

    timer_key: int
    due_date: datetime
    outcome: str = Field(
        description="created; replaced: it took the place of a timer of its name; unchanged: that timer stays instead"
    )


class Scheduled(Stored):
    """Hold a timer that is stored, and how it ended if it did while the call waited."""

    end: Record | None = Field(None, description="the record that ended it; null: it has not ended yet")


class TimerState(Answer):
    """Hold one timer, pending or ended.

    shape:   `etag` is for `move`, and None in a list, and over SQL
    """

    timer_key: int
    state: str = Field(description="PENDING or PAUSED, or how it ended: TRIGGERED, CANCELED or SKIPPED")
    tenant_id: str
    name: str | None
    due_date: datetime
    schedule: str | None
    zone: str | None
    missed: str | None
    occurrence: int = Field(description="which of its schedule's occurrences this is")
    target: str = Field(description="what its firing calls")
    payload: Any
    timer_type: str
    process_instance_key: int | None
    element_instance_key: int | None
    target_element_id: str | None
    created_at: datetime
    ended_at: datetime | None
    detail: Any = Field(description="what its last record adds")
    etag: str | None = None


class Changed(Answer):
    """Hold a timer after a change that was done.

    shape:   `state` is PENDING, PAUSED or CANCELED, or RESCHEDULED of one that was moved, which is pending; `due_date`
             is of one that was moved, and None over SQL: there `get` shows it
    """

    timer_key: int | None
    name: str | None
    state: str = Field(description="the state that it has now")
    due_date: datetime | None = Field(None, description="of a timer that was moved")


class Line(Answer):
    """Hold what became of one of many timers.

    shape:   `line` counts from 1, in the order in which they were given. `outcome` is created, replaced, unchanged or
             refused; unknown: the answer was lost, so it may be stored or not; untried: it was not written, and may be
             sent again. `why` says why it is not stored for certain. `replayed`: its idempotency key came before, and
             this is what it was answered then
    """

    line: int
    outcome: str
    timer_key: int | None = None
    due_date: datetime | None = None
    replayed: bool | None = None
    why: str | None = None


class BulkChanged(Answer):
    """Hold what became of many timers."""

    matched: int = Field(description="that the filter found")
    changed: int = Field(description="of those; the others had ended or changed meanwhile")
    unsure: int = Field(description="so many more may have been changed: the answer was lost")
    left_out: int = Field(
        0, description="so many more match, and are left out: they belong to jobs and instances of processes"
    )


class Explained(Answer):
    """Hold why a timer fired when it did, or why it did not."""

    moment: datetime
    verdict: str
    why: str
    records: tuple[Record, ...]


class Occurrence(Answer):
    """Hold one occurrence that a rule will have."""

    number: int
    due_date: datetime
    local: str = Field(description="the same on the clock of its zone")
    note: str | None = Field(description="what a change of that clock does to it")


class DeadLetter(Answer):
    """Hold a delivery that was given up, and how its last attempts failed."""

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
    failures: Any = Field(description="how each of the last attempts failed")


class Acted(Answer):
    """Hold what was done with dead letters, or would be."""

    timer_keys: tuple[int, ...] = Field(
        description="of those that were changed; of dead letters, the oldest comes first"
    )
    said: str = Field(description="the same for people")
    more: bool = Field(description="whether others are left")
    again_in_s: int = Field(description="after so many seconds the others may be acted on")


class Counted(Answer):
    """Hold how many timers a verb would change, and the token that the real request brings."""

    matched: int
    left_out: int = Field(
        0, description="so many more match, and are left out: they belong to jobs and instances of processes"
    )
    token: str


class LeasePage(Answer):
    """Hold some records that one member of a consumer group works on, and the token of its lease."""

    records: tuple[Record, ...]
    token: str


class PlacePage(Answer):
    """Hold where a consumer group is, and the token of the lease if it was kept."""

    position: int
    token: str | None


class TimersPage(Answer):
    """Hold some of the timers that were found."""

    timers: tuple[TimerState, ...]
    next: str | None = Field(description="the next request's `after`; null: there are no more")


class LogPage(Answer):
    """Hold some records of the log; it may have none and yet not be the last page."""

    records: tuple[Record, ...]
    next: int = Field(description="the next request's `after`")


class RecordsPage(Answer):
    """Hold the last records of a timer."""

    records: tuple[Record, ...]


class PreviewPage(Answer):
    """Hold what a rule will do."""

    occurrences: tuple[Occurrence, ...]


class DeadLettersPage(Answer):
    """Hold some dead letters."""

    dead_letters: tuple[DeadLetter, ...]
    next: str | None = Field(None, description="the next request's `after`; null: there are no more")
