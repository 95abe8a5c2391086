"""Draw due schedules of a fixed period at random, in every possible state of a row."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import astuple, dataclass, fields
from datetime import UTC, datetime, timedelta

from shardclock_server.timers.moment import LATEST_DUE_DATE
from shardclock_server.timers.occurrence import WITHOUT_END
from shardclock_server.timers.repeat import MICROSECOND, REPETITIONS_MAX
from shardclock_server.timers.schedule import Missed, parse_schedule
from tests.support.factories import query

FIRST = datetime(1, 1, 1, 0, 0, 1, tzinfo=UTC)  # asyncpg writes the very first moment as -infinity
PERIODS = (
    "PT1S", "PT0.5S", "PT0.000001S", "PT7M", "PT1H", "PT36H", "P1D", "P2W", "P1DT1H", "PT86399.999999S", "P300D",
    "P3652000D",
)  # fmt: skip
LATE_S = (0.0, 0.000001, 0.4, 1.0, 59.999999, 60.0, 60.000001, 61.0, 3_600.0, 86_400.0, 4e8, 6e10)
INSERT = """
insert into shardclock.timers (
    name, schedule, zone, missed, anchor, anchor_occurrence, occurrence, repetitions, due_date, created_at, changed_at,
    kept_due_date, period_us, payload
)
select s.*, '{"of": "a test"}'
from unnest(
    $1::text[], $2::text[], $3::text[], $4::text[], $5::timestamptz[], $6::bigint[], $7::bigint[], $8::integer[],
    $9::timestamptz[], $10::timestamptz[], $11::timestamptz[], $12::timestamptz[], $13::bigint[]
) s
"""


@dataclass(frozen=True, slots=True)
class DrawnSchedule:
    """One row of a schedule; its fields are the columns of `INSERT`."""

    name: str
    schedule: str
    zone: str | None
    missed: str | None
    anchor: datetime
    anchor_occurrence: int
    occurrence: int
    repetitions: int
    due_date: datetime
    created_at: datetime
    changed_at: datetime | None
    kept_due_date: datetime | None
    period_us: int


def drawn_schedule(chance: random.Random, number: int, now: datetime) -> DrawnSchedule:
    """Draw one due schedule. A client may have moved the schedule's next date, or requested a run."""
    text = chance.choice(PERIODS)
    has_days = "T" not in text or not text.startswith("PT")
    zone = chance.choice([None, "UTC"] if has_days else [None, "UTC", "Europe/Berlin", "Australia/Lord_Howe"])
    period = parse_schedule(f"R1/{text}").fixed_period
    assert period is not None
    late = timedelta(seconds=chance.choice(LATE_S)) * chance.choice([1, 1, 1, chance.random()])
    due_date = max(FIRST + period, now - late) if late < now - FIRST else FIRST + period
    due_date = min(due_date, now)
    steps = min(chance.choice([0, 1, 2, 1_000, 10**15]), (due_date - FIRST) // period)
    anchor = due_date - steps * period
    if chance.random() < 0.2:  # a client has moved the schedule
        anchor = min(max(anchor, FIRST + timedelta(days=1)), LATEST_DUE_DATE - timedelta(days=1))
        anchor += chance.choice([-1, 1]) * timedelta(seconds=chance.choice([0.000001, 0.7, 50, 80_000]))
    occurrence = 1 + chance.choice([0, 1, 7, 10**12])
    runs = chance.random() < 0.15
    ends = chance.choice([0, 0, 1, 3, 60, REPETITIONS_MAX]) if occurrence < REPETITIONS_MAX else None
    endless = ends is None or chance.random() < 0.5
    asked = chance.choice([None, due_date, now, now - timedelta(seconds=2)])
    return DrawnSchedule(
        name=f"drawn {number}",
        schedule=f"R/{text}" if period >= timedelta(seconds=1) else f"R10/{text}",
        zone=zone,
        missed=chance.choice([None, *Missed]),
        anchor=anchor,
        anchor_occurrence=occurrence - steps + (1 if runs else 0),
        occurrence=occurrence,
        # A run on request has counted one more.
        repetitions=WITHOUT_END if endless or ends is None else min(occurrence + ends + runs, REPETITIONS_MAX),
        due_date=due_date,
        created_at=max(due_date - timedelta(seconds=1), FIRST) if chance.random() < 0.5 else due_date,
        changed_at=asked,
        kept_due_date=min(now + timedelta(seconds=chance.choice([-70, -3, 5])), LATEST_DUE_DATE) if runs else None,
        period_us=period // MICROSECOND,
    )


async def add_drawn(dsn: str, drawn: Sequence[DrawnSchedule]) -> None:
    columns = zip(*(astuple(it) for it in drawn), strict=True)
    values = [list(column) for column in columns]
    assert len(values) == len(fields(DrawnSchedule))
    await query(dsn, INSERT, *values)
