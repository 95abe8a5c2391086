"""What is answered about timers, and about what a rule will do."""

from dataclasses import asdict
from datetime import datetime
from typing import Any, Self

from pydantic import Field

from shardclock_server.gateway.answers.answer import DUE, KEY, MOMENT, NAME, NEXT, PAYLOAD, TENANT, Answer, value_of
from shardclock_server.gateway.answers.log import RecordAnswer
from shardclock_server.sql.clients.history import TimerState
from shardclock_server.sql.clients.outcomes import Scheduled
from shardclock_server.timers.preview import Foreseen


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


class WaitedAnswer(ScheduledAnswer):
    """A timer that was asked for, and how it ended if it did while the caller waited."""

    end: RecordAnswer | None = Field(description="the record that ended it; null: it has not ended yet")


class TimerAnswer(Answer):
    """One timer, pending or ended."""

    timer_key: int = KEY
    state: str = Field(
        examples=["PENDING"], description="PENDING or PAUSED, or how it ended: TRIGGERED, CANCELED or SKIPPED"
    )
    tenant_id: str = TENANT
    name: str | None = NAME
    due_date: datetime = DUE
    schedule: str | None = Field(examples=["0 8 * * MON"])
    zone: str | None = Field(examples=["Europe/Berlin"])
    missed: str | None = Field(examples=["fire_once"])
    occurrence: int = Field(examples=[1], description="which of its schedule's occurrences this is")
    target: str = Field(examples=["log"], description="what its firing calls")
    payload: Any = PAYLOAD
    timer_type: str = Field(examples=["USER"])
    process_instance_key: int | None
    element_instance_key: int | None
    target_element_id: str | None
    created_at: datetime = MOMENT
    ended_at: datetime | None
    detail: Any = Field(examples=[None], description="what its last record adds")

    @classmethod
    def of(cls, timer: TimerState) -> Self:
        """Make it of what was found; who holds it is no client's business, and may change at any time."""
        fields = asdict(timer)
        del fields["holder"]
        if timer.schedule is None:
            fields["missed"] = None
        return cls(**fields | {name: value_of(fields[name]) for name in ("payload", "detail")})


class TimersAnswer(Answer):
    """Some of the timers that were found."""

    timers: list[TimerAnswer]
    next: str | None = NEXT


class ChangedAnswer(Answer):
    """A timer after a change that was done."""

    timer_key: int | None = KEY
    name: str | None = NAME
    state: str = Field(examples=["PENDING"], description="the state that it has now")
    due_date: datetime | None = Field(None, examples=["2027-01-31T09:00:00Z"], description="of a timer that was moved")


class ExplainedAnswer(Answer):
    """Why a timer fired when it did, or why it did not."""

    moment: datetime = MOMENT
    verdict: str = Field(examples=["FIRED"])
    why: str = Field(examples=["it fired at 2027-01-31T08:00:00.004Z, 4 ms after its due date"])
    records: list[RecordAnswer]


class OccurrenceAnswer(Answer):
    """One occurrence that a rule will have."""

    number: int = Field(examples=[1])
    due_date: datetime = DUE
    local: str = Field(examples=["2027-01-31T09:00:00+01:00"], description="the same on the clock of its zone")
    note: str | None = Field(description="what a change of that clock does to it")

    @classmethod
    def of(cls, foreseen: Foreseen) -> Self:
        """Make it of what was foreseen."""
        return cls(number=foreseen.number, due_date=foreseen.moment, local=foreseen.local, note=foreseen.edge)


class PreviewAnswer(Answer):
    """What a rule will do."""

    occurrences: list[OccurrenceAnswer]


LEFT_OUT = Field(
    examples=[0],
    description="so many more match, and are left out: they belong to jobs and instances of processes",
)


class CountedAnswer(Answer):
    """How many timers a verb would change, and the token that the real request brings."""

    matched: int = Field(examples=[2])
    left_out: int = LEFT_OUT
    token: str = Field(examples=["2-1801382400-5f1d7a9b03c2e846-9c1be3f0d2a4761508c7e5aa"])


class BulkAnswer(Answer):
    """What became of many timers."""

    matched: int = Field(examples=[2], description="that the filter found")
    changed: int = Field(examples=[2], description="of those; the others had ended or changed meanwhile")
    unsure: int = Field(examples=[0], description="so many more may have been changed: the answer was lost")
    left_out: int = LEFT_OUT
