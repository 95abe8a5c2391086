"""Prove that the previous release goes on working while the schema, and other processes, are a release ahead of it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from sql import migrate as module
from sql.migrate import migrate, migrations
from sql.verbs import Which, pause_timer, resume_timer
from tests.store import Hand, add_holder, intents, query, value

# What the previous release sends, word for word.
QUERIES = Path(__file__).parent / "previous" / "queries"
VERSION = 4
OLD, NEW = 1, 2
HOUR = timedelta(hours=1)
LEASE = timedelta(seconds=10)


@dataclass(frozen=True)
class Row:
    """A timer as the previous release knows it."""

    timer_key: int
    due_date: datetime
    schedule: str | None
    anchor: datetime | None
    occurrence: int

    @property
    def next(self) -> tuple[int, datetime] | tuple[None, None]:
        """Find what follows an hourly repeat, as that release counts it."""
        if self.anchor is None:
            return None, None
        return self.occurrence + 1, self.anchor + (self.occurrence + 1) * HOUR


class PreviousShard(Hand):
    """Do what a shard and a client of the previous release do."""

    async def ask(self, name: str, *args: Any) -> list[asyncpg.Record]:
        """Run one of its statements."""
        async with self.session.connection() as connection:
            return list(await connection.fetch((QUERIES / f"{name}.sql").read_text(), *args))

    async def take_all(self, *, scope: str = "own", fuse: bool = False) -> tuple[int, list[Row]]:
        """Take what is due within two seconds: how many it fired, and what it leased."""
        rows = await self.ask("take_due", self.holder, timedelta(seconds=2), LEASE, 4200, scope, fuse, self.now)
        return rows[0]["fired"], [Row(*row[3:]) for row in rows if row["timer_key"]]

    async def fire_all(self, rows: Sequence[Row]) -> set[int]:
        """Fire what it leased; what went comes back."""
        nexts = [row.next for row in rows]
        fired = await self.ask(
            "fire_due", self.holder, [row.timer_key for row in rows], [row.occurrence for row in rows],
            [number for number, _ in nexts], [due for _, due in nexts], [0 for _ in rows], self.now,
        )  # fmt: skip
        return {row["timer_key"] for row in fired if row["timer_key"]}

    async def schedule_all(self, *timers: tuple[str, str | None]) -> list[int]:
        """Schedule timers by a wait, with a schedule or without."""
        keys = [await self.value("select nextval('shardclock.timer_key_seq')") for _ in timers]
        rules = [rule for _, rule in timers]
        none = [None for _ in timers]
        rows = await self.ask(
            "schedule_timers", keys, none, [wait for wait, _ in timers], rules, [-1 if rule else 1 for rule in rules],
            [f"n{key}" for key in keys], ["default" for _ in timers], none, ["log" for _ in timers],
            ["USER" for _ in timers], none, none, none, ["UTC" for _ in timers],
        )  # fmt: skip
        assert sorted(row["timer_key"] for row in rows) == keys
        return keys


@pytest.fixture
async def old(each_dsn: str) -> AsyncIterator[PreviousShard]:
    """Give a shard of the previous release that keeps all slots."""
    await add_holder(each_dsn, OLD)
    async with PreviousShard(each_dsn, holder=OLD) as hand:
        yield hand


async def log(dsn: str) -> list[tuple[str, int]]:
    """Read what happened: intent and number."""
    rows = await query(dsn, "select intent, occurrence from shardclock.command_log order by xid, position")
    return [(row["intent"], row["occurrence"]) for row in rows]


async def test_plain_timers_are_scheduled_moved_cancelled_claimed_and_fired(old: PreviousShard) -> None:
    fused, leased, moved, canceled = await old.schedule_all(*[("PT0S", None)] * 4)
    which = {"moved": (moved, None, "default"), "canceled": (None, f"n{canceled}", "default")}

    assert (await old.ask("reschedule_timer", *which["moved"], None, "PT1H"))[0]["state"] == "RESCHEDULED"
    assert (await old.ask("cancel_timer", *which["canceled"], "paid"))[0]["state"] == "CANCELED"
    assert (await old.ask("cancel_timer", canceled + 1, None, "default", None))[0]["state"] == "UNKNOWN"
    await old.value(
        "update shardclock.timers set due_date = now() + interval '1 second' where timer_key = $1 returning 1", leased
    )
    fired, held = await old.take_all(fuse=True)
    assert (fired, [row.timer_key for row in held]) == (1, [leased])
    assert [row["timer_key"] for row in await old.ask("still_held", OLD, [leased, moved])] == [leased]
    assert [row["timer_key"] for row in await old.ask("held_by", OLD, timedelta(seconds=2))] == [leased]
    old.now = await old.value("select now() + interval '2 seconds'")
    assert await old.fire_all(held) == {leased}

    expected = {(fused, "TRIGGERED"), (leased, "TRIGGERED"), (moved, "RESCHEDULED"), (canceled, "CANCELED")}
    assert await intents(old.dsn) == dict.fromkeys(expected, 1)
    assert len(await old.ask("read_log", "0", 0, 500)) == 4
    (status,) = await old.ask("read_status")
    assert (status["pending"], status["overdue"]) == (1, 0)


async def test_a_repeat_goes_on_whichever_release_fires_it(old: PreviousShard) -> None:
    (key,) = await old.schedule_all(("PT1H", "R/PT1H"))
    first = await old.value("select due_date from shardclock.timers")
    assert (
        await old.value("select row(anchor_occurrence, missed, zone)::text from shardclock.timers")
        == "(0,fire_once,UTC)"
    )
    await add_holder(old.dsn, NEW)

    async with Hand(old.dsn, holder=NEW) as new:
        for hour in range(6):
            old.now = new.now = first + hour * HOUR
            if hour % 2:
                taken = (await new.take(fuse=True)).claimed
                assert len((await new.fire(taken)).timer_keys) == 1
            else:
                _, held = await old.take_all(fuse=True)
                assert len(await old.fire_all(held)) == 1

    assert await log(old.dsn) == [("TRIGGERED", number) for number in range(1, 7)]
    dues = await query(old.dsn, "select due_date from shardclock.command_log order by xid, position")
    assert [row["due_date"] for row in dues] == [first + hour * HOUR for hour in range(6)]
    assert await value(old.dsn, "select timer_key from shardclock.command_log order by position limit 1") == key


async def test_a_repeat_that_sql_scheduled_on_the_new_schema_is_fired_by_the_previous_release(
    old: PreviousShard,
) -> None:
    await old.value("select shardclock.schedule_timer(schedule => 'R/PT1H', name => 'beat')")
    first = await old.value("select due_date from shardclock.timers")

    for hour in range(3):
        old.now = first + hour * HOUR
        _, held = await old.take_all(fuse=True)
        assert len(await old.fire_all(held)) == 1

    assert await log(old.dsn) == [("TRIGGERED", number) for number in (1, 2, 3)]


@pytest.mark.parametrize("rule", [None, "R/PT1H"], ids=["plain", "repeat"])
async def test_the_previous_release_never_fires_a_paused_timer(old: PreviousShard, rule: str | None) -> None:
    (key,) = await old.schedule_all(("PT0S", rule))
    _, held = await old.take_all()
    assert [row.timer_key for row in held] == [key]
    assert await pause_timer(old.session, Which(key)) == "PAUSED"

    old.now = await old.value("select now() + interval '1000 years'")
    assert await old.fire_all(held) == set()
    for scope in ("own", "upcoming", "all"):
        for fuse in (False, True):
            assert await old.take_all(scope=scope, fuse=fuse) == (0, [])
    assert await old.ask("still_held", OLD, [key]) == []
    assert await log(old.dsn) == [("PAUSED", 1)]

    old.now = None
    # Nor does it undo the pause when it moves the timer.
    await old.ask("reschedule_timer", key, None, "default", datetime(2031, 1, 1, tzinfo=UTC), None)
    assert await old.value("select paused_due_date from shardclock.timers") == datetime(2031, 1, 1, tzinfo=UTC)
    await old.ask("reschedule_timer", key, None, "default", None, "PT0S")
    assert await resume_timer(old.session, Which(key)) == "PENDING"
    fired, held = await old.take_all(fuse=True)
    assert fired + len(await old.fire_all(held)) == 1


async def test_the_schema_is_brought_up_to_date_under_a_release_that_is_at_work(
    each_dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given the previous release's schema, and a shard that has prepared its statements and leased two timers
    released = migrations()[:VERSION]
    await query(each_dsn, "drop schema shardclock cascade")
    with monkeypatch.context() as patch:
        patch.setattr(module, "migrations", lambda: released)
        assert len(await migrate(each_dsn)) == VERSION
    await add_holder(each_dsn, OLD)
    await add_holder(each_dsn, NEW)
    async with PreviousShard(each_dsn, holder=OLD) as old, Hand(each_dsn, holder=NEW) as new:
        for _ in range(7):
            (fired,) = await old.schedule_all(("PT0S", None))
            _, held = await old.take_all()
            assert await old.fire_all(held) == {fired}
        plain, repeat, later = await old.schedule_all(("PT0S", None), ("PT0S", "R/PT1H"), ("PT1H", "R/PT1H"))
        _, held = await old.take_all()
        assert {row.timer_key for row in held} == {plain, repeat}

        # When the schema is brought up to date
        assert await migrate(each_dsn) == [step.name for step in migrations()[VERSION:]]

        # Then the shard fires what it holds, takes more, and a shard of this release takes over from it.
        assert await old.fire_all(held) == {plain, repeat}
        await old.schedule_all(("PT0S", None))
        assert (await old.take_all(fuse=True))[0] == 1
        new.now = await old.value("select now() + interval '2 hours'")
        taken = (await new.take(scope="all")).claimed
        assert sorted((timer.occurrence, timer.anchor_occurrence, timer.repetitions) for timer in taken) == [
            (1, 0, -1),
            (2, 0, -1),
        ]
        assert later in {timer.timer_key for timer in taken}
        assert len((await new.fire(taken)).timer_keys) == 2
    assert {n for (_, intent), n in (await intents(each_dsn)).items() if intent == "TRIGGERED"} == {1}
