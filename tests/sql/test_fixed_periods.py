"""Prove that a claim fires a schedule of a fixed period, and writes the same rows as a shard."""

from __future__ import annotations

import json
import random
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import asyncpg
import pytest

from shardclock_server.sql.claims.claim import ScanResult
from shardclock_server.timers.moment import LATEST_DUE_DATE
from tests.support.drawn_periods import FIRST, add_drawn, drawn_schedule
from tests.support.factories import HolderClient, add_holder, add_schedule, ends, query, value, waits
from tests.support.plans import prepare, taking
from tests.support.roles import OPERATOR

NOON = datetime(2026, 3, 29, 12, tzinfo=UTC)
BATCH = 100_000
BROKEN = "select shardclock.broken_rule(t) as row from shardclock.timers t where shardclock.broken_rule(t) is not null"
DRAWN = 700
# The two ways of firing give different keys and moments, so these columns are left out.
ROWS = """
select to_jsonb(t) - '{timer_key,slot,created_at,claimed_by,claimed_until}'::text[] as row
from shardclock.timers t
order by t.name
"""
RECORDS = """
select to_jsonb(l) - '{position,timer_key,slot,recorded_at}'::text[] as row
from shardclock.command_log l
order by l.name, l.occurrence, l.intent
"""


@pytest.fixture
async def shard(each_dsn: str) -> AsyncIterator[HolderClient]:
    await add_holder(each_dsn, 1)
    async with HolderClient(each_dsn, holder=1, role=OPERATOR) as hand:
        yield hand


@pytest.fixture
async def client(each_dsn: str) -> AsyncIterator[HolderClient]:
    async with HolderClient(each_dsn, plans={}) as hand:
        yield hand


async def rows_of(hand: HolderClient, text: str) -> list[str]:
    """Read rows as JSON, in the client's transaction."""
    async with hand.session.connection() as connection:
        return [found["row"] for found in await connection.fetch(text)]


async def add_beat(dsn: str, schedule: str = "R/PT1S", period_us: int | None = 1_000_000, **more: str) -> int:
    """Insert the third occurrence of a schedule, which is already due."""
    columns = {"anchor": "now() - interval '4 seconds'", "occurrence": "3", "period_us": str(period_us or "null")}
    return await add_schedule(dsn, schedule, **(columns | more))


async def add_hourly(dsn: str) -> int:
    """Insert the third, due occurrence of an hourly schedule; the fourth is due in an hour."""
    return await add_beat(dsn, "R/PT1H", 3_600_000_000, anchor="now() - interval '3 hours 1 second'")


async def log(dsn: str) -> list[tuple[str, int]]:
    rows = await query(dsn, "select intent, occurrence from shardclock.command_log order by position")
    return [(found["intent"], found["occurrence"]) for found in rows]


async def only_row(dsn: str) -> dict[str, Any]:
    (found,) = await query(dsn, "select * from shardclock.timers")
    return dict(found)


async def take(shard: HolderClient) -> ScanResult:
    """Claim the due timers; the claim fires the plain timers."""
    return await shard.take(fire_overdue=True, horizon_s=0.0, batch=BATCH)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    "now",
    [NOON, FIRST + timedelta(days=2), LATEST_DUE_DATE - timedelta(hours=1, microseconds=7)],
    ids=["today", "first year", "last year"],
)
async def test_a_claim_and_a_shard_write_the_same_rows_for_any_schedule_of_a_fixed_period(
    shard: HolderClient, now: datetime, seed: int
) -> None:
    # Given many schedules of every kind, all of them due
    chance = random.Random(seed)
    await add_drawn(shard.dsn, [drawn_schedule(chance, number, now) for number in range(DRAWN)])
    assert await rows_of(shard, BROKEN) == []
    shard.now = now

    # When a claim fires all schedules and is rolled back, and then a shard fires them
    await shard.begin()
    fused = await take(shard)
    by_claim = await rows_of(shard, ROWS), await rows_of(shard, RECORDS)
    await shard.rollback()
    leased = (await shard.take(horizon_s=0.0, batch=BATCH)).claimed
    fired = await shard.fire(leased)
    by_shard = await rows_of(shard, ROWS), await rows_of(shard, RECORDS)

    # Then both have written the same rows, and no row breaks a rule.
    assert await rows_of(shard, BROKEN) == []
    assert len(leased) == len(fired.timer_keys) == DRAWN
    assert fused.claimed == []
    for claimed, sharded in zip(by_claim, by_shard, strict=True):
        assert len(claimed) == len(sharded) > DRAWN / 3
        assert [pair for pair in zip(claimed, sharded, strict=True) if pair[0] != pair[1]] == []
    counts = "select count(*) filter (where intent = 'TRIGGERED'), sum((detail ->> 'count')::bigint)"
    ((triggered, skipped),) = await query(shard.dsn, f"{counts} from shardclock.command_log")
    assert (fused.fired, fused.skipped) == (triggered, skipped)


@pytest.mark.parametrize(
    ("schedule", "zone", "period_us"),
    [
        ("R/PT1S", "UTC", 1_000_000),
        ("R5/PT0.000001S", "UTC", 1),
        ("R/PT24H", "Europe/Berlin", 86_400_000_000),
        ("R/P1DT1S", "UTC", 86_401_000_000),
        ("R/P2W", "UTC", 14 * 86_400_000_000),
        ("R/2026-01-01T00:00:00Z/2026-01-01T00:00:07Z", "Europe/Berlin", 7_000_000),
        ("R/P1D", "Europe/Berlin", None),
        ("R/P1M", "UTC", None),
        ("R/PT1H/9000-01-01T00:00:00Z", "UTC", None),
        ("* * * * * *", "UTC", None),
    ],
)
async def test_the_first_firing_writes_the_period_of_a_rule_and_later_firings_keep_the_period(
    shard: HolderClient, schedule: str, zone: str, period_us: int | None
) -> None:
    await add_beat(shard.dsn, schedule, None, zone=f"'{zone}'", repetitions="9", missed="'fire_all'")

    first = await take(shard)
    await shard.fire(first.claimed)
    after = await only_row(shard.dsn)

    assert (first.fired, len(first.claimed)) == (0, 1), "no claim knows the period yet"
    assert (after["occurrence"], after["period_us"]) == (4, period_us)
    shard.now = after["due_date"]
    second = await take(shard)
    assert (second.fired, len(second.claimed)) == ((0, 1) if period_us is None else (1, 0))
    await shard.fire(second.claimed)
    assert ((await only_row(shard.dsn))["occurrence"], (await only_row(shard.dsn))["period_us"]) == (5, period_us)


async def test_a_claim_reports_more_until_each_missed_occurrence_has_fired(shard: HolderClient) -> None:
    await add_beat(shard.dsn, missed="'fire_all'", anchor="now() - interval '6.5 seconds'")
    shard.now = await value(shard.dsn, "select due_date + interval '3 s' from shardclock.timers")

    taken = [await take(shard) for _ in range(7)]

    assert [it.fired for it in taken] == [1, 1, 1, 1, 1, 1, 0]
    assert [it.saturated for it in taken] == [True, True, True, True, True, False, False]
    assert await log(shard.dsn) == [("TRIGGERED", number) for number in range(3, 9)]


async def test_a_leased_schedule_that_gets_another_rule_follows_the_new_rule(shard: HolderClient) -> None:
    await add_beat(shard.dsn)

    assert await shard.reschedule(name="beat", schedule="R/PT5M") == "RESCHEDULED"
    taken = await take(shard)

    assert (taken.fired, [timer.anchor_occurrence for timer in taken.claimed]) == (0, [None])
    assert (await only_row(shard.dsn))["period_us"] is None
    assert await log(shard.dsn) == [("RESCHEDULED", 3)]


async def test_a_row_with_a_period_that_does_not_match_its_rule_is_refused(shard: HolderClient) -> None:
    await add_beat(shard.dsn)

    for change, rule in (
        ("schedule = 'R/PT5M'", "invalid_period_us"),
        ("zone = 'Europe/Berlin'", "invalid_period_us"),
        ("anchor_occurrence = null", "invalid_period_us"),
        ("anchor_occurrence = 5", "invalid_period_us"),
        ("period_us = 0", "invalid_period_us"),
        ("schedule = null, anchor = null, occurrence = 1, repetitions = 1", "invalid_row"),
    ):
        with pytest.raises(asyncpg.CheckViolationError) as refused:
            await query(shard.dsn, f"update shardclock.timers set {change}")
        assert refused.value.constraint_name == rule, change

    await query(shard.dsn, "update shardclock.timers set schedule = 'R/PT5M', period_us = 300000000")


async def test_a_claim_does_not_check_the_next_occurrence_of_a_checked_schedule(shard: HolderClient) -> None:
    take = await prepare(shard.dsn, "claim_due")
    await add_beat(shard.dsn)

    text = await take.connection.fetchval(
        f"explain (analyze, format json) execute claim_due ({', '.join(taking(1, fire_overdue=True))})"
    )

    (plan,) = json.loads(text)
    assert {it["Trigger Name"] for it in plan["Triggers"]} == {"command_log_marks_writers"}
    assert (await only_row(shard.dsn))["occurrence"] > 3
    await take.connection.close()


async def test_a_late_plain_timer_with_a_policy_fires(shard: HolderClient) -> None:
    await query(
        shard.dsn, "insert into shardclock.timers (due_date, missed) select now() - interval '2 minutes', 'skip'"
    )

    assert (await take(shard)).fired == 1
    assert await log(shard.dsn) == [("TRIGGERED", 1)]


# Clients and claims at the same time

VERBS = {
    "cancel": ("cancel_timer", {}, "CANCELED"),
    "move": ("reschedule_timer", {"delay": "PT1H"}, "RESCHEDULED"),
    "change": ("reschedule_timer", {"schedule": "R/PT1M"}, "RESCHEDULED"),
    "pause": ("pause_timer", {}, "PAUSED"),
}


@pytest.mark.parametrize("verb", VERBS)
async def test_a_verb_waits_for_a_claim_that_fires_the_schedule_and_finds_the_next_occurrence(
    shard: HolderClient, client: HolderClient, verb: str
) -> None:
    function, arguments, intent = VERBS[verb]
    await add_hourly(shard.dsn)
    await shard.begin()
    assert (await take(shard)).fired == 1
    changing = await waits(client, client.call(function, {"name": "beat"} | arguments))

    await shard.commit()

    assert await ends(changing) == intent
    assert await log(shard.dsn) == [("TRIGGERED", 3), (intent, 4)]
    assert [it["occurrence"] for it in await query(shard.dsn, "select occurrence from shardclock.timers")] == (
        [] if verb == "cancel" else [4]
    )


@pytest.mark.parametrize("commits", [False, True], ids=["undone", "committed"])
@pytest.mark.parametrize("verb", VERBS)
async def test_a_claim_skips_a_schedule_during_a_verb_and_then_uses_the_changed_schedule(
    shard: HolderClient, client: HolderClient, verb: str, *, commits: bool
) -> None:
    function, arguments, intent = VERBS[verb]
    await add_hourly(shard.dsn)
    await client.begin()
    assert await client.call(function, {"name": "beat"} | arguments) == intent

    assert (await take(shard)).fired == 0
    await (client.commit() if commits else client.rollback())

    assert (await take(shard)).fired == (0 if commits else 1)
    assert await log(shard.dsn) == [(intent, 3) if commits else ("TRIGGERED", 3)]


async def test_a_run_on_request_fires_by_a_claim_and_leaves_the_dates_unchanged(
    shard: HolderClient, client: HolderClient
) -> None:
    await add_beat(
        shard.dsn, "R9/PT1H", 3_600_000_000, due="now() + interval '10 minutes'", repetitions="9",
        anchor="now() - interval '170 minutes'",
    )  # fmt: skip
    due = (await only_row(shard.dsn))["due_date"]

    assert await client.call("run_timer", {"name": "beat"}) == "RESCHEDULED"
    assert (await take(shard)).fired == 1
    kept = await only_row(shard.dsn)
    shard.now = due
    assert (await take(shard)).fired == 1
    after = await only_row(shard.dsn)

    assert (kept["occurrence"], kept["due_date"], kept["repetitions"]) == (4, due, 10)
    assert (after["occurrence"], after["due_date"], after["repetitions"]) == (5, due + timedelta(hours=1), 10)
    assert await log(shard.dsn) == [("RESCHEDULED", 3), ("TRIGGERED", 3), ("TRIGGERED", 4)]


async def test_two_shards_that_claim_at_once_fire_an_occurrence_once(shard: HolderClient) -> None:
    await add_holder(shard.dsn, 2)
    await add_hourly(shard.dsn)
    async with HolderClient(shard.dsn, holder=2) as other:
        await shard.begin()
        assert (await take(shard)).fired == 1
        second = await other.take(fire_overdue=True, horizon_s=0.0)
        await shard.commit()
        third = await other.take(fire_overdue=True, horizon_s=0.0)

    assert (second.fired, third.fired) == (0, 0)
    assert await log(shard.dsn) == [("TRIGGERED", 3)]
