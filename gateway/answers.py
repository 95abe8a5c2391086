"""What is answered: the models of the API's reference. Moments are RFC 3339 in UTC; payloads are JSON values."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, Field

from service.dead_letters import Acted
from service.deliveries import Retried
from service.endpoints import Done, NewSecret
from sql.clients.history import TimerState
from sql.clients.pending import Scheduled
from sql.cluster.holders import SHARD, WORKER, Holder
from sql.deliveries.dead_letters import DeadLetter
from sql.deliveries.find import FoundDelivery
from sql.endpoints.endpoints import WEBHOOK, ListedEndpoint
from sql.jobs.history import JobRun
from sql.jobs.jobs import Job
from sql.log.groups import Group
from sql.log.records import LogRecord
from sql.metrics.forecast import Forecast
from sql.metrics.status import Status
from timers.moment import canonical_moment
from timers.preview import Foreseen

KEY = Field(examples=[20514])
DUE = Field(examples=["2027-01-31T08:00:00Z"])


class Answer(BaseModel):
    """Something that is answered."""

    model_config = ConfigDict(frozen=True)


class ScheduledAnswer(Answer):
    """A timer that was asked for, and is stored now."""

    timer_key: int = KEY
    due_date: datetime = DUE
    outcome: str = Field(
        examples=["created"],
        description="created; replaced: it took the place of a timer of its name; unchanged: that timer stays instead",
    )

    @classmethod
    def of(cls, scheduled: Scheduled) -> Self:
        """Make it of what was stored."""
        return cls(timer_key=scheduled.timer_key, due_date=scheduled.due_date, outcome=scheduled.outcome)


class TimerAnswer(Answer):
    """One timer, pending or ended."""

    timer_key: int = KEY
    state: str = Field(
        examples=["PENDING"], description="PENDING or PAUSED, or how it ended: TRIGGERED, CANCELED or SKIPPED"
    )
    tenant_id: str = Field(examples=["default"])
    name: str | None = Field(examples=["order-4711"])
    due_date: datetime = DUE
    schedule: str | None = Field(examples=["0 8 * * MON"])
    zone: str | None = Field(examples=["Europe/Berlin"])
    missed: str | None = Field(examples=["fire_once"])
    occurrence: int = Field(examples=[1], description="which of its schedule's occurrences this is")
    target: str = Field(examples=["log"], description="what its firing calls")
    payload: Any = Field(examples=[{"order": 4711}])
    timer_type: str = Field(examples=["USER"])
    process_instance_key: int | None
    element_instance_key: int | None
    target_element_id: str | None
    created_at: datetime
    ended_at: datetime | None
    detail: Any = Field(description="what its last record adds")

    @classmethod
    def of(cls, timer: TimerState) -> Self:
        """Make it of what was found; who holds it is no client's business, and may change at any time."""
        fields = asdict(timer)
        del fields["holder"]
        if timer.schedule is None:
            fields["missed"] = None
        return cls(**fields | {name: _value(fields[name]) for name in ("payload", "detail")})


class TimersAnswer(Answer):
    """Some of the timers that were found."""

    timers: list[TimerAnswer]
    next: str | None = Field(description="the next request's `after`; null: there are no more")


class ChangedAnswer(Answer):
    """A timer after a change that was done."""

    timer_key: int | None = KEY
    name: str | None = Field(examples=["order-4711"])
    state: str = Field(examples=["CANCELED"])
    due_date: datetime | None = Field(None, description="of a timer that was moved")


class RecordAnswer(Answer):
    """One event of a timer or of its delivery, as it stands in the log."""

    position: int = Field(examples=[812])
    recorded_at: datetime
    intent: str = Field(examples=["TRIGGERED"])
    timer_key: int = KEY
    tenant_id: str
    name: str | None
    due_date: datetime = DUE
    occurrence: int
    schedule: str | None
    target: str
    payload: Any
    detail: Any

    @classmethod
    def of(cls, record: LogRecord) -> Self:
        """Make it of a record."""
        fields = {name: getattr(record, name) for name in cls.model_fields}
        return cls(**fields | {name: _value(fields[name]) for name in ("payload", "detail")})


class RecordsAnswer(Answer):
    """The last records of a timer, the newest first."""

    records: list[RecordAnswer]


class LogAnswer(Answer):
    """Some records of the log, in its order."""

    records: list[RecordAnswer]
    next: int = Field(description="the next request's `after`", examples=[812])


class WaitedAnswer(ScheduledAnswer):
    """A timer that was asked for, and how it ended if it did while the caller waited."""

    end: RecordAnswer | None = Field(description="the record that ended it; null: it has not ended yet")


class ExplainedAnswer(Answer):
    """Why a timer fired when it did, or why it did not."""

    moment: datetime
    verdict: str = Field(examples=["FIRED"])
    why: str
    records: list[RecordAnswer]


class OccurrenceAnswer(Answer):
    """One occurrence that a rule will have."""

    number: int
    due_date: datetime = DUE
    local: str = Field(description="the same on the clock of its zone")
    note: str | None = Field(description="what a change of that clock does to it")

    @classmethod
    def of(cls, foreseen: Foreseen) -> Self:
        """Make it of what was foreseen."""
        return cls(number=foreseen.number, due_date=foreseen.moment, local=foreseen.local, note=foreseen.edge)


class PreviewAnswer(Answer):
    """What a rule will do."""

    occurrences: list[OccurrenceAnswer]


class CountedAnswer(Answer):
    """How many timers a verb would change, and the token that the real request brings."""

    matched: int
    token: str


class BulkAnswer(Answer):
    """What became of many timers."""

    matched: int = Field(description="that the filter found")
    changed: int = Field(description="of those; the others had ended or changed meanwhile")
    unsure: int = Field(description="so many more may have been changed: the answer was lost")


class DeadLetterAnswer(Answer):
    """A delivery that was given up."""

    timer_key: int = KEY
    target: str = Field(examples=["webhook:billing"])
    tenant_id: str
    name: str | None
    occurrence: int
    due_date: datetime = DUE
    fired_at: datetime
    died_at: datetime
    failed_attempts: int
    reason: str
    payload: Any
    failures: Any = Field(description="how each of the last attempts failed")

    @classmethod
    def of(cls, letter: DeadLetter) -> Self:
        """Make it of what was found."""
        fields = asdict(letter)
        return cls(**fields | {name: _value(fields[name]) for name in ("payload", "failures")})


class DeadLettersAnswer(Answer):
    """Some dead letters, the newest first."""

    dead_letters: list[DeadLetterAnswer]


class ActedAnswer(Answer):
    """What was done with dead letters, or would be."""

    timer_keys: list[int] = Field(description="of those that were changed, the first that was given up coming first")
    said: str = Field(examples=["2 dead letters discarded"], description="the same for people")
    more: bool = Field(description="whether others are left")
    again_in_s: int = Field(description="after so many seconds the others may be acted on")

    @classmethod
    def of(cls, acted: Acted) -> Self:
        """Make it of what was done."""
        return cls(timer_keys=list(acted.timer_keys), said=acted.sentence, more=acted.more, again_in_s=acted.again_in_s)


class DeliveryAnswer(Answer):
    """A delivery that is on its way."""

    timer_key: int = KEY
    target: str = Field(examples=["webhook:billing"])
    tenant_id: str
    name: str | None
    state: str
    failed_attempts: int
    next_attempt_at: datetime
    last_error: str | None

    @classmethod
    def of(cls, delivery: FoundDelivery) -> Self:
        """Make it of what was found."""
        return cls(**{name: getattr(delivery, name) for name in cls.model_fields})


class DeliveriesAnswer(Answer):
    """Some deliveries, by target, what is due first coming first."""

    deliveries: list[DeliveryAnswer]
    next: str | None = Field(description="the next request's `after`; null: there are no more")


class DeliveryStateAnswer(Answer):
    """The state that a delivery has now."""

    state: str = Field(examples=["DISCARDED"])
    said: str


class RetriedAnswer(Answer):
    """Which deliveries are due now, or would be."""

    timer_keys: list[int]
    said: str
    more: bool = Field(description="whether others are left")

    @classmethod
    def of(cls, retried: Retried) -> Self:
        """Make it of what was done."""
        return cls(timer_keys=list(retried.timer_keys), said=retried.sentence, more=retried.more)


class EndpointAnswer(Answer):
    """Where webhooks are sent."""

    name: str = Field(examples=["billing"])
    tenant_id: str
    target: str = Field(examples=["webhook:billing"])
    url: str
    policy: Any
    added_at: datetime
    changed_at: datetime
    disabled_at: datetime | None
    disabled_why: str | None
    waiting: int = Field(description="deliveries that are on their way there")

    @classmethod
    def of(cls, endpoint: ListedEndpoint) -> Self:
        """Make it of what was found."""
        return cls(target=f"{WEBHOOK}{endpoint.name}", **asdict(endpoint))


class EndpointsAnswer(Answer):
    """Some endpoints, by name."""

    endpoints: list[EndpointAnswer]


class SaidAnswer(Answer):
    """What was done; `changed` is false if it was so already."""

    said: str
    changed: bool

    @classmethod
    def of(cls, done: Done) -> Self:
        """Make it of what was done."""
        return cls(said=done.sentence, changed=done.changed)


class SecretAnswer(Answer):
    """What was done, and what the receiver verifies webhooks with, which is not shown again."""

    said: str
    secret: str

    @classmethod
    def of(cls, made: NewSecret) -> Self:
        """Make it of what was done."""
        return cls(said=made.sentence, secret=made.verifier)


class TriedAnswer(Answer):
    """What an endpoint answered to a test."""

    delivered: bool
    said: str
    duration_s: float


class JobAnswer(Answer):
    """A job, with all that is known of it."""

    name: str = Field(examples=["refresh"])
    function: str
    state: str = Field(examples=["SCHEDULED"])
    every_s: float | None
    schedule: str | None
    zone: str
    missed: str
    overlap: str
    priority: int
    config: Any
    policy: Any
    next_start: datetime | None
    waiting: int
    retry_at: datetime | None
    run_id: str | None
    run_attempt: int | None
    run_started_at: datetime | None
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
    p50_s: float | None
    p99_s: float | None
    disabled_at: datetime | None
    disabled_why: str | None

    @classmethod
    def of(cls, job: Job) -> Self:
        """Make it of what was found."""
        fields = {name: getattr(job, name) for name in cls.model_fields}
        return cls(**fields | {name: _value(fields[name]) for name in ("config", "policy")})


class JobsAnswer(Answer):
    """All jobs, by name."""

    jobs: list[JobAnswer]


class JobStateAnswer(Answer):
    """The state that a job has now."""

    state: str = Field(examples=["TERMINATING"])


class StartedAnswer(Answer):
    """A start of a job that was asked for."""

    timer_key: int = KEY


class RunAnswer(Answer):
    """One run of a job, or a start that was skipped."""

    run_id: str = Field(examples=["4711.2"])
    job: str
    outcome: str | None = Field(description="null: it has not ended")
    attempt: int
    scheduled_at: datetime
    started_at: datetime
    running_at: datetime | None
    ended_at: datetime | None
    duration_s: float | None
    reason: str | None
    traceback: str | None
    result: Any
    progress: float | None
    message: str | None
    log: str | None = Field(description="the last lines that it printed")

    @classmethod
    def of(cls, run: JobRun) -> Self:
        """Make it of what was found."""
        fields = {name: getattr(run, name) for name in cls.model_fields}
        return cls(**fields | {"result": _value(fields["result"])})


class RunsAnswer(Answer):
    """Some runs of a job, the newest first."""

    runs: list[RunAnswer]


class GroupAnswer(Answer):
    """A group that reads the log, and how far behind it is."""

    group: str = Field(examples=["billing"])
    partitions: int
    position: int
    lag_records: int
    lag_s: float = Field(description="the age of the oldest record that is not done")
    idle_s: float | None
    failures: int
    set_aside: int
    error: str | None

    @classmethod
    def of(cls, group: Group) -> Self:
        """Make it of what was found."""
        fields = {name: getattr(group, name) for name in cls.model_fields if name != "group"}
        return cls(group=group.group_name, **fields)


class GroupsAnswer(Answer):
    """The groups that read the log."""

    groups: list[GroupAnswer]


class LeaseAnswer(Answer):
    """Some records to work on, and the token by which they are acknowledged."""

    records: list[RecordAnswer]
    token: str
    partition: int
    lease_s: float


class PlaceAnswer(Answer):
    """Where a group is; the token of the lease if it was kept."""

    position: int
    token: str | None


class KeeperAnswer(Answer):
    """A shard or a worker, and which part of the slots it keeps."""

    holder: str = Field(examples=["7d40eda6502a1f43"])
    cluster_id: str
    host: str
    pid: int
    part: int | None = Field(description="null: it keeps none")
    part_count: int | None
    held: int = Field(description="timers leased, or deliveries in hand")
    started_at: datetime
    seen_at: datetime
    suspended_at: datetime | None

    @classmethod
    def of(cls, keeper: Holder) -> Self:
        """Make it of what was found."""
        fields = {name: getattr(keeper, name) for name in cls.model_fields}
        return cls(**fields | {"holder": f"{keeper.holder:016x}"})


class ClusterAnswer(Answer):
    """The cluster, as an operator sees it."""

    pending: int
    paused: int
    overdue: int = Field(description="an estimate, if there are more than about 170,000")
    oldest_overdue_s: float
    left_by_outage: int
    ramp_per_s: int | None
    lag_p50_ms: float | None = Field(description="of the firings among the last thousand records")
    lag_p99_ms: float | None
    shards_wanted: int
    workers_wanted: int
    deliveries: int
    dead_letters: int
    leader_alive: bool
    server_time: datetime
    hold: str | None = Field(description="why nothing may fire; null: it may")
    shards: list[KeeperAnswer]
    workers: list[KeeperAnswer]
    timers_per_minute: list[int] = Field(description="due in each of the next 15 minutes")
    peak_per_s: float

    @classmethod
    def of(cls, status: Status, keepers: Sequence[Holder], coming: Forecast, hold: str | None) -> Self:
        """Make it of what was found."""
        known = {name: getattr(status, name) for name in cls.model_fields if hasattr(status, name)}
        return cls(
            **known,
            hold=hold,
            shards=[KeeperAnswer.of(keeper) for keeper in keepers if keeper.role == SHARD],
            workers=[KeeperAnswer.of(keeper) for keeper in keepers if keeper.role == WORKER],
            timers_per_minute=list(coming.minutes),
            peak_per_s=coming.peak_per_s,
        )


def said(moment: datetime) -> str:
    """Write a moment as all answers do."""
    return canonical_moment(moment)


def _value(text: str | None) -> Any:
    return None if text is None else json.loads(text)
