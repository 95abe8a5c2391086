"""What is answered about timers, and about what a rule will do."""

from dataclasses import asdict
from typing import Self

from pydantic import Field

from shardclock.api import answers
from shardclock_server.gateway.answers.answer import MOMENT_TEXT, examples, value_of
from shardclock_server.gateway.answers.log import RecordAnswer
from shardclock_server.sql.clients.history import TimerState
from shardclock_server.sql.clients.outcomes import Scheduled
from shardclock_server.timers.preview import Foreseen


class ScheduledAnswer(answers.Stored, json_schema_extra=examples()):
    """A timer that was asked for, and is stored now."""

    @classmethod
    def of(cls, scheduled: Scheduled) -> Self:
        """Make it of what was stored."""
        return cls(timer_key=scheduled.timer_key, due_date=scheduled.due_date, outcome=scheduled.outcome)


class WaitedAnswer(ScheduledAnswer):
    """A timer that was asked for, and how it ended if it did while the caller waited."""

    end: RecordAnswer | None = Field(description="the record that ended it; null: it has not ended yet")


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
        detail=None,
    ),
):
    """One timer, pending or ended."""

    etag: str | None = Field(None, exclude=True)  # the answer's header has it

    @classmethod
    def of(cls, timer: TimerState) -> Self:
        """Make it of what was found; who holds it is no client's business, and may change at any time."""
        fields = asdict(timer)
        del fields["holder"]
        if timer.schedule is None:
            fields["missed"] = None
        return cls(**fields | {name: value_of(fields[name]) for name in ("payload", "detail")})


class TimersAnswer(answers.TimersPage, json_schema_extra=examples()):
    """Some of the timers that were found."""

    timers: tuple[TimerAnswer, ...]


class ChangedAnswer(answers.Changed, json_schema_extra=examples(state="PENDING", due_date="2027-01-31T09:00:00Z")):
    """A timer after a change that was done."""


class ExplainedAnswer(
    answers.Explained,
    json_schema_extra=examples(
        moment=MOMENT_TEXT,
        verdict="FIRED",
        why="it fired at 2027-01-31T08:00:00.004Z, 4 ms after its due date",
    ),
):
    """Why a timer fired when it did, or why it did not."""

    records: tuple[RecordAnswer, ...]


class OccurrenceAnswer(answers.Occurrence, json_schema_extra=examples(number=1, local="2027-01-31T09:00:00+01:00")):
    """One occurrence that a rule will have."""

    @classmethod
    def of(cls, foreseen: Foreseen) -> Self:
        """Make it of what was foreseen."""
        return cls(number=foreseen.number, due_date=foreseen.moment, local=foreseen.local, note=foreseen.edge)


class PreviewAnswer(answers.PreviewPage):
    """What a rule will do."""

    occurrences: tuple[OccurrenceAnswer, ...]


class CountedAnswer(
    answers.Counted,
    json_schema_extra=examples(token="2-1801382400-5f1d7a9b03c2e846-9c1be3f0d2a4761508c7e5aa"),  # noqa: S106 - an example
):
    """How many timers a verb would change, and the token that the real request brings."""


class BulkAnswer(answers.BulkChanged, json_schema_extra=examples(changed=2, unsure=0)):
    """What became of many timers."""
