"""Hold what is answered. Fields that are not known here are left out, so a newer gateway may have more."""

from datetime import datetime
from typing import Any

from pydantic import BaseModel, ConfigDict


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
    detail: Any


class Scheduled(Answer):
    """Hold a timer that is stored.

    shape:   `outcome` is created; replaced: it took the place of a timer of its name; or unchanged: that timer stays.
             `end` is the record that ended it, if it ended while the call waited
    """

    timer_key: int
    due_date: datetime
    outcome: str
    end: Record | None = None


class TimerState(Answer):
    """Hold one timer, pending or ended.

    shape:   `state` is PENDING or PAUSED, or how it ended: TRIGGERED, CANCELED or SKIPPED. `etag` is for `move`, and
             None in a list, and over SQL
    """

    timer_key: int
    state: str
    tenant_id: str
    name: str | None
    due_date: datetime
    schedule: str | None
    zone: str | None
    missed: str | None
    occurrence: int
    target: str
    payload: Any
    timer_type: str
    process_instance_key: int | None
    element_instance_key: int | None
    target_element_id: str | None
    created_at: datetime
    ended_at: datetime | None
    detail: Any
    etag: str | None = None


class Changed(Answer):
    """Hold a timer after a change that was done.

    shape:   `state` is PENDING, PAUSED or CANCELED, or RESCHEDULED of one that was moved, which is pending; `due_date`
             is of one that was moved, and None over SQL: there `get` shows it
    """

    timer_key: int | None
    name: str | None
    state: str
    due_date: datetime | None = None


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
    """Hold what became of many timers.

    shape:   `changed` counts those of the `matched` that had not ended or changed meanwhile; `unsure` how many more may
             have been changed; `left_out` how many others a cancel spares, because instances of processes wait for them
    """

    matched: int
    changed: int
    unsure: int
    left_out: int = 0


class Explained(Answer):
    """Hold why a timer fired when it did, or why it did not."""

    moment: datetime
    verdict: str
    why: str
    records: tuple[Record, ...]


class Occurrence(Answer):
    """Hold one occurrence that a rule will have; `note` says what a change of its zone's clock does to it."""

    number: int
    due_date: datetime
    local: str
    note: str | None


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
    failures: Any


class Acted(Answer):
    """Hold what was done with dead letters, or would be.

    shape:   the keys of those that were changed, the first that was given up coming first; `said` is the same for
             people; `more`: others are left, which may be acted on after `again_in_s` seconds
    """

    timer_keys: tuple[int, ...]
    said: str
    more: bool
    again_in_s: int


class JobState(Answer):
    """Hold a job, with what is known of it.

    shape:   `withdrawn_at` is since when no app has its code; it is DISABLED, too. `paused_start` is when it would have
             started, if its next start is paused; then it starts no more until that is resumed
    """

    name: str
    function: str
    state: str
    every_s: float | None
    schedule: str | None
    zone: str
    config: Any
    next_start: datetime | None
    run_id: str | None
    progress: float | None
    message: str | None
    last_start: datetime | None
    last_finish: datetime | None
    last_success: datetime | None
    last_outcome: str | None
    last_reason: str | None
    runs: int
    successes: int
    failures: int
    crashes: int
    consecutive_failures: int
    disabled_at: datetime | None
    disabled_why: str | None
    cancel_why: str | None
    consecutive_crashes: int
    disabled_by: str | None
    paused_start: datetime | None
    paused_at: datetime | None
    paused_why: str | None
    paused_by: str | None
    withdrawn_at: datetime | None


class JobRun(Answer):
    """Hold one run of a job.

    shape:   `outcome` is how it ended, such as SUCCEEDED; `result` is what its function returned; `log` the last lines
             that it printed
    """

    run_id: str
    job: str
    outcome: str | None
    attempt: int
    scheduled_at: datetime
    started_at: datetime
    ended_at: datetime | None
    duration_s: float | None
    reason: str | None
    traceback: str | None
    result: Any
    log: str | None


class Counted(Answer):
    """Hold how many timers a verb would change, and the token that the real request brings.

    shape:   `left_out` counts others, which a cancel spares, because instances of processes wait for them
    """

    matched: int
    token: str
    left_out: int = 0


class Started(Answer):
    """Hold the key of a start that was asked for."""

    timer_key: int


class LeasePage(Answer):
    """Hold some records that one member of a consumer group works on, and the token of its lease."""

    records: tuple[Record, ...]
    token: str


class PlacePage(Answer):
    """Hold where a consumer group is, and the token of the lease if it was kept."""

    position: int
    token: str | None


class TimersPage(Answer):
    """Hold some of the timers that were found; `next` is None if there are no more."""

    timers: tuple[TimerState, ...]
    next: str | None


class LogPage(Answer):
    """Hold some records of the log; it may have none and yet not be the last page."""

    records: tuple[Record, ...]
    next: int


class RecordsPage(Answer):
    """Hold the last records of a timer."""

    records: tuple[Record, ...]


class PreviewPage(Answer):
    """Hold what a rule will do."""

    occurrences: tuple[Occurrence, ...]


class DeadLettersPage(Answer):
    """Hold some dead letters; `next` is None if there are no more."""

    dead_letters: tuple[DeadLetter, ...]
    next: str | None = None


class JobsPage(Answer):
    """Hold all jobs."""

    jobs: tuple[JobState, ...]
