"""Prove that the previous release goes on working while the schema, and other processes, are a release ahead of it."""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from shards.firing import firing_of, planning_of
from sql import leadership
from sql import migrate as module
from sql.holders import Incarnation, beat, end_holders, list_holders, register_holder
from sql.migrate import migrate, migrations
from sql.verbs import Which, pause_timer, resume_timer
from tests.store import Hand, add_holder, add_schedule, intents, query, value
from timers.model import ClaimedTimer
from timers.schedule import first_of, parse_schedule

# What the previous release sends, word for word: its `sql/queries`.
QUERIES = Path(__file__).parent / "previous" / "queries"
NAMES = sorted(path.stem for path in QUERIES.glob("*.sql"))
VERSION = 8
OLD, NEW = 1, 2
BLUE, GREEN = "blue", "green"
HOUR = timedelta(hours=1)
LEASE = timedelta(seconds=10)


class Previous(Hand):
    """Do what a client of the previous release does, and any other part of it by the names of its statements."""

    async def ask(self, name: str, *args: Any) -> list[asyncpg.Record]:
        """Run one of its statements."""
        async with self.session.connection() as connection:
            return list(await connection.fetch((QUERIES / f"{name}.sql").read_text(), *args))

    async def state(self, name: str, *args: Any) -> str:
        """Run one of its verbs."""
        return str((await self.ask(name, *args))[0]["state"])

    async def schedule_all(self, *timers: tuple[str, str | None]) -> list[int]:
        """Schedule timers by a wait, with a rule or without; a rule makes its own first date."""
        drawn = await self.ask("draw_keys", len(timers))
        keys = [row["timer_key"] for row in drawn]
        rules = [rule and parse_schedule(rule, "UTC") for _, rule in timers]
        firsts = [rule and first_of(rule, drawn[0]["drawn_at"]) for rule in rules]
        none = [None for _ in timers]
        await self.ask("lock_keys", keys[0])
        await self.ask("hold_pending", keys)
        rows = await self.ask(
            "schedule_timers", keys, [first and first.due_date for first in firsts],
            [None if rule else wait for wait, rule in timers], [rule for _, rule in timers],
            [first and first.anchor for first in firsts], [first.anchor_number if first else 0 for first in firsts],
            [rule.repetitions if rule else 1 for rule in rules], ["fire_once" for _ in timers],
            [f"n{key}" for key in keys], ["default" for _ in timers], none, ["log" for _ in timers],
            ["USER" for _ in timers], none, none, none, ["UTC" for _ in timers],
        )  # fmt: skip
        assert sorted(row["timer_key"] for row in rows) == keys
        assert sorted(row["timer_key"] for row in await self.ask("known_keys", keys)) == keys
        return keys


class PreviousShard(Previous):
    """Do what a shard of the previous release does."""

    async def take_all(self, *, scope: str = "own", fuse: bool = False) -> tuple[int, list[ClaimedTimer]]:
        """Take what is due within two seconds: how many it fired, and what it leased."""
        rows = await self.ask(
            "take_due", self.holder, timedelta(seconds=2), LEASE, 4200, scope, None, fuse, LEASE, "", self.now
        )
        return rows[0]["fired"], [ClaimedTimer(*row[6:]) for row in rows if row["timer_key"]]

    async def fire_all(self, timers: Sequence[ClaimedTimer]) -> set[int]:
        """Fire what it leased; what went comes back."""
        moment = self.now or await self.value("select now()")
        firings = [firing_of(timer, moment) for timer in timers]
        nexts = [firing.next for firing in firings]
        rows = await self.ask(
            "fire_due", self.holder, [timer.timer_key for timer in timers], [timer.occurrence for timer in timers],
            [firing.fires for firing in firings], [firing.skipped for firing in firings],
            [after and after.number for after in nexts], [after and after.due_date for after in nexts],
            [after and after.anchor for after in nexts], [after and after.anchor_number for after in nexts], self.now,
        )  # fmt: skip
        return {row["timer_key"] for row in rows if row["timer_key"]}

    async def plan(self, timer: ClaimedTimer) -> set[int]:
        """Give a schedule that SQL wrote its first date."""
        planning = planning_of(timer)
        first = planning.first
        rows = await self.ask(
            "plan_schedules", self.holder, [timer.timer_key], [str(planning.rule)], [planning.rule.zone.key],
            [first.due_date], [first.anchor], [first.anchor_number], [planning.repetitions],
        )  # fmt: skip
        return {row["timer_key"] for row in rows}


class PreviousCoordinator(Previous):
    """Do what a coordinator of the previous release does: only one that leads has shards, and it ends all others."""

    async def turn(self, cluster_id: str, mine: Sequence[int] = (), *, fresh: bool = False) -> bool:
        """Take one turn with one shard for each of its holders; whether it leads comes back."""
        (row,) = await self.ask("lead", self.holder, cluster_id, timedelta(minutes=1), fresh)
        if row["leads"]:
            there = [row["holder"] for row in await self.ask("list_holders")]
            await self.ask("end_holders", [holder for holder in there if holder not in mine], "dead")
            await self.assign(row["term"], mine)
        return bool(row["leads"])

    async def assign(self, term: int, holders: Sequence[int]) -> list[int]:
        """Give each holder its shard in some term; those that got it come back."""
        shards = list(range(len(holders)))
        rows = await self.ask("assign", self.holder, term, list(holders), shards, len(holders))
        return [row["holder"] for row in rows]


@pytest.fixture
async def old(each_dsn: str) -> AsyncIterator[PreviousShard]:
    """Give a shard of the previous release that keeps all slots."""
    await add_holder(each_dsn, OLD)
    async with PreviousShard(each_dsn, holder=OLD) as hand:
        yield hand


@pytest.fixture
async def coordinator(each_dsn: str) -> AsyncIterator[PreviousCoordinator]:
    """Give a coordinator of the previous release."""
    async with PreviousCoordinator(each_dsn, holder=OLD) as hand:
        yield hand


async def log(dsn: str) -> list[tuple[str, int]]:
    """Read what happened: intent and number."""
    rows = await query(dsn, "select intent, occurrence from shardclock.command_log order by xid, position")
    return [(row["intent"], row["occurrence"]) for row in rows]


async def lead(hand: Hand, cluster_id: str, *, fresh: bool = False) -> bool:
    """Ask for the lead as a coordinator of this release does."""
    found = await leadership.lead(hand.session, NEW, cluster_id=cluster_id, lease_s=60, fresh=fresh)
    return found.leads


def incarnation(holder: int, cluster_id: str) -> Incarnation:
    return Incarnation(holder, cluster_id, actor_name=f"shard-{holder}", node_id="node", host="here", pid=1)


async def test_postgres_still_understands_every_statement_of_the_previous_release(old: PreviousShard) -> None:
    assert {"take_due", "fire_due", "lead", "assign", "beat", "schedule_timers", "read_log"} <= set(NAMES)
    async with old.session.connection() as connection:
        for name in NAMES:
            await connection.prepare((QUERIES / f"{name}.sql").read_text())


async def test_plain_timers_are_scheduled_moved_cancelled_claimed_and_fired(old: PreviousShard) -> None:
    fused, leased, moved, canceled = await old.schedule_all(*[("PT0S", None)] * 4)

    assert await old.state("reschedule_timer", moved, None, "default", None, "PT1H", *[None] * 4) == "RESCHEDULED"
    assert await old.state("cancel_timer", None, f"n{canceled}", "default", "paid") == "CANCELED"
    assert await old.state("cancel_timer", canceled + 1, None, "default", None) == "UNKNOWN"
    await old.value(
        "update shardclock.timers set due_date = now() + interval '1 second' where timer_key = $1 returning 1", leased
    )
    fired, held = await old.take_all(fuse=True)
    assert (fired, [timer.timer_key for timer in held]) == (1, [leased])
    assert [row["timer_key"] for row in await old.ask("still_held", OLD, [leased, moved])] == [leased]
    assert [row["timer_key"] for row in await old.ask("held_by", OLD, timedelta(seconds=2))] == [leased]
    old.now = await old.value("select now() + interval '2 seconds'")
    assert await old.fire_all(held) == {leased}

    expected = {(fused, "TRIGGERED"), (leased, "TRIGGERED"), (moved, "RESCHEDULED"), (canceled, "CANCELED")}
    assert await intents(old.dsn) == dict.fromkeys(expected, 1)
    assert len(await old.ask("read_log", "0", 0, 500)) == 4
    (status,) = await old.ask("read_status", LEASE)
    assert (status["pending"], status["overdue"]) == (1, 0)


async def test_the_verbs_of_the_previous_release_do_as_they_say(old: PreviousShard) -> None:
    one, *many = await old.schedule_all(*[("PT1H", None)] * 3)
    which = (one, None, "default")

    assert await old.state("pause_timer", *which, "wait") == "PAUSED"
    assert await old.state("run_timer", *which) == "PAUSED"
    assert await old.state("resume_timer", *which) == "PENDING"
    assert await old.state("run_timer", *which) == "RESCHEDULED"
    for name, args in {
        "shift_timers": ("PT5M", "once"), "pause_timers": ("all",), "resume_timers": (), "cancel_timers": ("all",)
    }.items():  # fmt: skip
        assert sorted(row["timer_key"] for row in await old.ask(name, many, *args)) == many, name

    assert (await old.take_all(fuse=True))[0] == 1
    ends = Counter(intent for _, intent in (await intents(old.dsn)).elements())
    assert ends == {"PAUSED": 3, "RESUMED": 3, "RESCHEDULED": 3, "CANCELED": 2, "TRIGGERED": 1}


async def test_a_repeat_goes_on_whichever_release_fires_it(old: PreviousShard) -> None:
    (key,) = await old.schedule_all(("", "R/PT1H"))
    first = await old.value("select due_date from shardclock.timers")
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


async def test_a_schedule_that_sql_wrote_on_the_new_schema_is_planned_and_fired_by_the_previous_release(
    old: PreviousShard,
) -> None:
    await old.value("select shardclock.schedule_timer(schedule => '0 8 * * MON', name => 'beat', zone => 'Asia/Tokyo')")
    _, (unplanned,) = await old.take_all(fuse=True)
    assert await old.plan(unplanned) == {unplanned.timer_key}
    first: datetime = await old.value("select due_date from shardclock.timers")

    for week in range(3):
        old.now = first + timedelta(weeks=week)
        _, held = await old.take_all(fuse=True)
        assert len(await old.fire_all(held)) == 1

    assert await log(old.dsn) == [("TRIGGERED", number) for number in (1, 2, 3)]


@pytest.mark.parametrize("rule", [None, "R/PT1H"], ids=["plain", "repeat"])
async def test_the_previous_release_never_fires_a_paused_timer(old: PreviousShard, rule: str | None) -> None:
    (key,) = await old.schedule_all(("PT1S", rule))
    old.now = await old.value("select due_date from shardclock.timers")
    _, held = await old.take_all()
    assert [timer.timer_key for timer in held] == [key]
    assert await pause_timer(old.session, Which(key)) == "PAUSED"

    old.now += timedelta(days=365_000)
    assert await old.fire_all(held) == set()
    for scope in ("own", "backlog", "all"):
        for fuse in (False, True):
            assert await old.take_all(scope=scope, fuse=fuse) == (0, [])
    assert await old.ask("still_held", OLD, [key]) == []
    assert await log(old.dsn) == [("PAUSED", 1)]

    assert await resume_timer(old.session, Which(key)) == "PENDING"
    old.now = await old.value("select due_date from shardclock.timers")
    _, held = await old.take_all()
    assert len(await old.fire_all(held)) == 1


async def test_a_timer_that_can_not_be_fired_is_set_aside_by_the_previous_release(old: PreviousShard) -> None:
    (key,) = await old.schedule_all(("PT0S", None))
    await old.take_all()

    assert [row["timer_key"] for row in await old.ask("set_aside", OLD, key, "its data")] == [key]

    assert await log(old.dsn) == [("PAUSED", 1)]
    assert await old.take_all(scope="all") == (0, [])


# Shards of both releases at once


@pytest.mark.parametrize("ends", [OLD, NEW], ids=["the old one is ended", "the new one is ended"])
async def test_of_two_shards_one_of_each_release_the_one_that_was_ended_fires_nothing(
    old: PreviousShard, ends: int
) -> None:
    schedule = await add_schedule(old.dsn, zone="'UTC'", missed="'fire_once'")
    keys = {*await old.schedule_all(*[("PT0S", None)] * 20), schedule}
    await add_holder(old.dsn, NEW)
    async with Hand(old.dsn, holder=NEW) as new:
        if ends == OLD:
            _, late = await old.take_all()
            await end_holders(new.session, [OLD], why="dead")
            taken = (await new.take(scope="all")).claimed
            assert await old.fire_all(late) == set()
            assert (await new.fire(taken)).timer_keys == keys
            assert await old.ask("beat", OLD, 0) == []
            assert await beat(new.session, NEW, held=0) is not None
        else:
            late = (await new.take()).claimed
            assert [row["holder"] for row in await old.ask("end_holders", [NEW], "dead")] == [NEW]
            _, taken = await old.take_all(scope="all")
            assert (await new.fire(late)).timer_keys == frozenset()
            assert await old.fire_all(taken) == keys
            assert await beat(new.session, NEW, held=0) is None
            assert len(await old.ask("beat", OLD, 0)) == 1

    assert {timer.timer_key for timer in taken} == {timer.timer_key for timer in late} == keys
    assert await intents(old.dsn) == dict.fromkeys(((key, "TRIGGERED") for key in keys), 1)


async def test_shards_of_both_releases_share_a_backlog_and_none_of_it_is_fired_twice(old: PreviousShard) -> None:
    keys = await old.schedule_all(*[("PT0S", None)] * 200)
    await add_holder(old.dsn, NEW)

    async with Hand(old.dsn, holder=NEW) as new:
        _, held = await old.take_all()
        assert (await new.take(scope="all", fuse=True)).fired == 0, "all of it is leased"
        assert (await new.fire(held)).timer_keys == frozenset(), "the lease is another's"
        assert await old.fire_all(held[:50]) == {timer.timer_key for timer in held[:50]}
        await old.ask("end_holders", [OLD], "drained")
        assert (await new.take(scope="all", fuse=True)).fired == 150
        assert await old.fire_all(held) == set()

    assert await intents(old.dsn) == dict.fromkeys(((key, "TRIGGERED") for key in keys), 1)


# A coordinator of the previous release, which knows no stand-by


async def test_beside_an_old_leader_a_new_cluster_does_not_lead_and_its_shards_are_ended_without_a_loss(
    coordinator: PreviousCoordinator,
) -> None:
    dsn = coordinator.dsn
    await add_holder(dsn, OLD, None, None)
    assert await coordinator.turn(BLUE, [OLD], fresh=True)
    (key,) = await coordinator.schedule_all(("PT0S", None))
    async with Hand(dsn, holder=NEW) as new, PreviousShard(dsn, holder=OLD) as old:
        # Given a new cluster whose shard has swept a timer
        assert not await lead(new, GREEN, fresh=True)
        await register_holder(new.session, incarnation(NEW, GREEN))
        held = (await new.take(scope="all")).claimed
        assert [timer.timer_key for timer in held] == [key]

        assert await coordinator.turn(BLUE, [OLD])

        assert await beat(new.session, NEW, held=1) is None
        assert [holder.shard for holder in await list_holders(new.session)] == [0]
        assert await old.take_all(fuse=True) == (1, []), "what the new one leased is free"
        assert (await new.fire(held)).timer_keys == frozenset()
        assert not await lead(new, GREEN)
    assert await intents(dsn) == {(key, "TRIGGERED"): 1}


async def test_an_old_leader_that_stops_is_followed_at_once_by_a_new_cluster_and_the_other_way_round(
    coordinator: PreviousCoordinator,
) -> None:
    async with Hand(coordinator.dsn) as new:
        assert await coordinator.turn(BLUE, fresh=True)
        await coordinator.ask("resign", OLD)
        assert await lead(new, GREEN)

        await register_holder(new.session, incarnation(OLD, BLUE))
        assert not await coordinator.turn(BLUE, [OLD])
        assert await coordinator.assign(1, [OLD]) == [], "its term is over"
        assert [holder.shard for holder in await list_holders(new.session)] == [None]

        await leadership.resign(new.session, NEW)
        assert await coordinator.turn(BLUE, [OLD])
        assert not await lead(new, GREEN)
        assert [holder.shard for holder in await list_holders(new.session)] == [0]


async def test_an_old_leader_that_is_silent_is_followed_when_its_lease_ends_and_then_stands_back(
    coordinator: PreviousCoordinator,
) -> None:
    async with Hand(coordinator.dsn) as new:
        assert await coordinator.turn(BLUE, fresh=True)
        assert not await lead(new, GREEN)
        await query(coordinator.dsn, "update shardclock.coordination set lease_until = clock_timestamp()")

        assert await lead(new, GREEN)

        assert not await coordinator.turn(BLUE)
        assert not await coordinator.turn(BLUE, fresh=True)


async def test_an_old_leader_takes_back_a_lead_that_was_handed_over_so_a_switch_from_it_does_not_hold(
    coordinator: PreviousCoordinator,
) -> None:
    async with Hand(coordinator.dsn) as new:
        assert await coordinator.turn(BLUE, fresh=True)
        await leadership.hand_over(new.session, GREEN, lease_s=60)

        assert await coordinator.turn(BLUE)

        assert not await lead(new, GREEN)


async def test_an_old_client_scales_under_a_policy_of_the_new_release(coordinator: PreviousCoordinator) -> None:
    async with Hand(coordinator.dsn) as new:
        await leadership.set_policy(new.session, shards_min=2, shards_max=9, target_per_s=None)
        (row,) = await coordinator.ask("scale", 5)
        assert (row["before"], row["shards_wanted"]) == (2, 5)
        policy = await leadership.read_policy(new.session)
    assert (policy.shards_wanted, policy.shards_min, policy.shards_max) == (5, 2, 9), (
        "the new leader's forecast decides"
    )


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
    async with (
        PreviousShard(each_dsn, holder=OLD) as old,
        PreviousCoordinator(each_dsn, holder=OLD) as coordinator,
        Hand(each_dsn, holder=NEW) as new,
    ):
        for _ in range(7):
            (fired,) = await old.schedule_all(("PT0S", None))
            _, held = await old.take_all()
            assert await old.fire_all(held) == {fired}
            assert await coordinator.turn(BLUE, [OLD])
        repeat, later = await old.schedule_all(("", "R/PT1H"), ("", "R/PT3H"))
        old.now = await old.value("select min(due_date) from shardclock.timers")
        (plain,) = await old.schedule_all(("PT0S", None))
        _, held = await old.take_all()
        assert {timer.timer_key for timer in held} == {plain, repeat}

        # When the schema is brought up to date
        assert await migrate(each_dsn) == [step.name for step in migrations()[VERSION:]]

        # Then the shard fires what it holds and takes more, its coordinator leads on, and clients change timers.
        assert await old.fire_all(held) == {plain, repeat}
        assert await coordinator.turn(BLUE, [OLD])
        (canceled, _) = await old.schedule_all(*[("PT0S", None)] * 2)
        assert await old.state("cancel_timer", canceled, None, "default", None) == "CANCELED"
        old.now = None
        assert (await old.take_all(fuse=True))[0] == 1
        # And a shard of this release takes over from it.
        await add_holder(each_dsn, NEW)
        new.now = await old.value("select now() + interval '4 hours'")
        taken = (await new.take(scope="all")).claimed
        assert [(timer.occurrence, timer.repetitions) for timer in taken] == [(2, -1), (1, -1)]
        assert later in {timer.timer_key for timer in taken}
        assert len((await new.fire(taken)).timer_keys) == 2
    assert {n for (_, intent), n in (await intents(each_dsn)).items() if intent == "TRIGGERED"} == {1}


async def test_a_role_with_grants_of_its_own_goes_on_cancelling(each_dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    released = migrations()[:VERSION]
    await query(each_dsn, "drop schema shardclock cascade")
    with monkeypatch.context() as patch:
        patch.setattr(module, "migrations", lambda: released)
        await migrate(each_dsn)
    role = f"clerk_{secrets.token_hex(8)}"
    for statement in (
        f"create role {role}",
        f"grant usage on schema shardclock to {role}",
        f"grant all on all tables in schema shardclock to {role}",
        f"grant usage on all sequences in schema shardclock to {role}",
    ):
        await query(each_dsn, statement)

    await migrate(each_dsn)

    db = await asyncpg.connect(each_dsn)
    try:
        await db.execute(f"set role {role}")
        await db.execute("select shardclock.schedule_timer(delay => 'PT1H', name => 'n')")
        assert await db.fetchval("select shardclock.cancel_timer(name => 'n')") == "CANCELED"
    finally:
        await db.execute(f"reset role; drop owned by {role}; drop role {role}")
        await db.close()
