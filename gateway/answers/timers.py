"""The response models of timers, and of the preview of a schedule."""

from dataclasses import asdict
from datetime import datetime
from typing import Any, Self

from pydantic import Field

from shardclock.api import answers
from shardclock.api.answers import Answer
from shardclock_server.gateway.answers.answer import KEY, MOMENT, MOMENT_TEXT, NAME, RowAnswer, examples, value_of
from shardclock_server.gateway.answers.log import RecordAnswer
from shardclock_server.service.schedules import ScheduleState
from shardclock_server.sql.clients.history import TimerState
from shardclock_server.sql.clients.outcomes import Scheduled
from shardclock_server.timers.preview import PreviewedOccurrence


class ScheduledAnswer(answers.StoredTimer, json_schema_extra=examples()):
    """A stored timer."""

    @classmethod
    def of(cls, scheduled: Scheduled) -> Self:
        """Create the response model from the result of a create."""
        return cls(timer_key=scheduled.timer_key, due_date=scheduled.due_date, outcome=scheduled.outcome)


class WaitedAnswer(ScheduledAnswer):
    """A stored timer, and the record of the timer's end if the timer ended during the wait."""

    end: RecordAnswer | None = Field(description="the record of the timer's end; null: the timer has not ended")


class TimerAnswer(
    answers.TimerState,
    json_schema_extra=examples(
        state="PENDING",
        schedule="0 8 * * MON",
        zone="Europe/Berlin",
        missed="fire_once",
        occurrence=1,
        target="log",
        timer_type="USER",
        changed_at=None,
        detail=None,
    ),
):
    """One timer, pending or ended."""

    etag: str | None = Field(None, exclude=True)  # the response carries the etag in a header

    @classmethod
    def of(cls, timer: TimerState) -> Self:
        """Create the response model from a stored timer, without the internal field `holder`."""
        return cls(**_fields_of(timer))


def _fields_of(timer: TimerState) -> dict[str, Any]:
    fields = asdict(timer)
    del fields["holder"]
    return fields | {name: value_of(fields[name]) for name in ("payload", "detail")}


class FiringAnswer(
    answers.Firing, json_schema_extra=examples(intent="TRIGGERED", occurrence=7, late_s=0.004, skipped=0)
):
    """One past firing of a schedule, or one record of several skipped occurrences."""


class ScheduleAnswer(
    answers.Schedule,
    json_schema_extra=examples(
        state="PENDING", schedule="0 8 * * MON", zone="Europe/Berlin", missed="fire_once", occurrence=8, target="log",
        timer_type="USER", changed_at=None, detail=None, skipped=0,
    ),
):  # fmt: skip
    """The next occurrence of a schedule, and its last firings."""

    etag: str | None = Field(None, exclude=True)
    last: FiringAnswer | None
    firings: tuple[FiringAnswer, ...]

    @classmethod
    def of(cls, state: ScheduleState) -> Self:
        """Create the response model from a schedule."""
        last = None if state.last is None else FiringAnswer(**asdict(state.last))
        firings = tuple(FiringAnswer(**asdict(it)) for it in state.firings)
        return cls(**_fields_of(state.timer), last=last, skipped=state.skipped, firings=firings)


class RefusedTimerAnswer(RowAnswer):
    """A timer that a shard has paused because it could not fire the timer."""

    timer_key: int = KEY
    name: str | None = NAME
    target: str = Field(examples=["log"])
    schedule: str | None = Field(examples=["0 0 30 2 *"])
    paused_at: datetime = MOMENT
    reason: str = Field(examples=["schedule '0 0 30 2 *' never occurs"])


class RefusedTimersAnswer(Answer):
    """The timers that shards have paused; the timer that was paused last comes first."""

    timers: list[RefusedTimerAnswer]


class SchedulesAnswer(answers.SchedulesPage, json_schema_extra=examples()):
    """A page of schedules."""

    schedules: tuple[ScheduleAnswer, ...]


class TimersAnswer(answers.TimersPage, json_schema_extra=examples()):
    """A page of timers."""

    timers: tuple[TimerAnswer, ...]


class ChangedAnswer(answers.Changed, json_schema_extra=examples(state="PENDING", due_date="2027-01-31T09:00:00Z")):
    """A timer after a change."""


class ExplainedAnswer(
    answers.Explained,
    json_schema_extra=examples(
        moment=MOMENT_TEXT,
        verdict="FIRED",
        why="it fired at 2027-01-31T08:00:00.004Z, 4 ms after its due date",
    ),
):
    """The reason why a timer had fired, or had not fired, by the requested moment."""

    records: tuple[RecordAnswer, ...]


class OccurrenceAnswer(answers.Occurrence, json_schema_extra=examples(number=1, local="2027-01-31T09:00:00+01:00")):
    """One future occurrence of a schedule."""

    @classmethod
    def of(cls, previewed: PreviewedOccurrence) -> Self:
        """Create the response model from a computed occurrence."""
        return cls(number=previewed.number, due_date=previewed.moment, local=previewed.local, note=previewed.edge)


class PreviewAnswer(answers.PreviewPage):
    """The next occurrences of a schedule."""

    occurrences: tuple[OccurrenceAnswer, ...]


class TimersCountedAnswer(
    answers.TimersCounted,
    json_schema_extra=examples(token="2-1801382400-5f1d7a9b03c2e846-9c1be3f0d2a4761508c7e5aa"),  # noqa: S106 - an example
):
    """The number of timers that a change would affect, and the token that confirms the change."""


class BulkAnswer(
    answers.BulkChanged,
    json_schema_extra=examples(
        matched=3, changed=2, unsure=0, unchanged=1, unchanged_reasons={"timer_ended": 1}, operation_id=7
    ),
):
    """The result of a change of many timers."""
