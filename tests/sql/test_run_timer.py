"""Prove that a run, or another rule, fires nothing twice and leaves a schedule's dates, moved ones too, as they are."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from shardclock_server.service.outlook import outlook_of
from shardclock_server.shards.firing import firing_of
from shardclock_server.sql.clients.history import read_upcoming
from shardclock_server.sql.clients.verbs import (
    NewRule,
    Shift,
    TimerRef,
    pause_timer,
    reschedule_timer,
    resume_timer,
    run_timer,
)
from tests.support.factories import HolderClient, add_schedule, query
from tests.support.occurrences import numbers, row, serve
from tests.support.sql_client import schedule

HOUR, DAY = timedelta(hours=1), timedelta(days=1)
BEAT = TimerRef(name="beat")
EACH_SECOND = "* * * * * *"


async def due(dsn: str) -> datetime:
    """Read when the one timer is due."""
    found: datetime = (await row(dsn))["due_date"]
    return found


async def fired(dsn: str, intent: str = "TRIGGERED") -> list[datetime]:
    """Read the dates of what has fired, in the order of the log."""
    text = "select due_date from shardclock.command_log where intent = $1 order by position"
    return [found["due_date"] for found in await query(dsn, text, intent)]


# In a transaction that began before others fired


async def fire_until(shard: HolderClient, count: int) -> None:
    """Let occurrences fire, one each second, until `count` have fired in all."""
    while len(await fired(shard.dsn)) < count:
        await serve(shard)
        await asyncio.sleep(0.05)


@pytest.mark.slow
@pytest.mark.parametrize("missed", ["fire_all", "fire_once", "skip"])
@pytest.mark.parametrize("verb", ["run", "rule", "replace"])
async def test_what_fired_while_the_caller_s_transaction_was_open_fires_once(
    shard: HolderClient, client: HolderClient, verb: str, missed: str
) -> None:
    # Given a transaction that began before two occurrences fired
    await schedule(client, schedule=EACH_SECOND, name="beat", missed=missed)
    await serve(shard)
    await client.begin()
    await client.value("select now()")
    await fire_until(shard, 2)

    # When it runs the schedule, gives it its rule once more, or puts another with that rule in its place
    if verb == "run":
        assert await run_timer(client.session, BEAT) == "RESCHEDULED"
    elif verb == "rule":
        assert await reschedule_timer(client.session, BEAT, NewRule(EACH_SECOND)) == "RESCHEDULED"
    else:
        await schedule(client, schedule=EACH_SECOND, name="beat", missed=missed, on_conflict="replace", payload="1")
    await client.commit()
    await serve(shard)
    await fire_until(shard, 4)

    # Then no date comes twice, or out of order, and none is said to have been skipped.
    dates = await fired(shard.dsn)
    assert dates == sorted(set(dates))
    assert sum(date.microsecond > 0 for date in dates) == (verb == "run")
    assert await fired(shard.dsn, "SKIPPED") == []


async def test_a_new_rule_after_a_clock_was_set_back_leads_to_nothing_that_has_fired(
    shard: HolderClient, client: HolderClient
) -> None:
    await add_schedule(shard.dsn, "@hourly", "now() + interval '1 minute'", anchor="now()", occurrence="7",
        created_at="now() + interval '30 days'")  # fmt: skip
    made = (await row(shard.dsn))["created_at"]

    assert await reschedule_timer(client.session, BEAT, NewRule("@hourly")) == "RESCHEDULED"
    await serve(shard)

    assert await due(shard.dsn) > made


# Where a date was moved


RULES = ["0 0 8 1 1 *", "R/PT1H", "R/P1M", "R/2031-01-31T08:00:00Z/P1M"]


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("shift", ["PT30M", "-PT20M", "P1Y", None])
async def test_a_run_leaves_a_date_where_it_was_moved_and_the_grid_after_it(
    shard: HolderClient, client: HolderClient, rule: str, shift: str | None
) -> None:
    # Given a schedule whose next date was moved, and what follows it
    await schedule(client, schedule=rule, name="beat", missed="fire_all")
    await serve(shard)
    grid = await due(shard.dsn)
    if shift:
        await reschedule_timer(client.session, BEAT, Shift(shift))
    moved = await row(shard.dsn)

    # When it is run
    assert await run_timer(client.session, BEAT) == "RESCHEDULED"
    await serve(shard)

    # Then its next date is the one that it was, and after that comes the grid's next.
    after = await row(shard.dsn)
    assert after["due_date"] == moved["due_date"]
    assert (after["occurrence"], after["anchor"], after["kept_due_date"]) == (2, moved["anchor"], None)
    await shard.send([firing_of(timer, moved["due_date"]) for timer in await lease(shard, moved["due_date"])])
    shard.now = None
    months = {"0 0 8 1 1 *": 12, "R/PT1H": 0}.get(rule, 1)
    following = await row(shard.dsn)
    step = following["due_date"] - grid
    assert timedelta(days=28 * months) <= step <= timedelta(days=31 * months) if months else step == HOUR
    assert await numbers(shard.dsn) == [("TRIGGERED", 1), ("TRIGGERED", 2)]


async def lease(shard: HolderClient, at: datetime) -> list[Any]:
    """Take what is due at a moment, and leave the hand's clock there."""
    shard.now = at
    return (await shard.take(horizon_s=0.0)).claimed


@pytest.mark.parametrize("rule", ["0 0 8 1 1 *", "R/P1Y"])
async def test_a_run_brings_back_no_date_that_was_brought_forward_and_has_fired(
    shard: HolderClient, client: HolderClient, rule: str
) -> None:
    await schedule(client, schedule=rule, name="beat")
    await serve(shard)
    first = await due(shard.dsn)
    await reschedule_timer(client.session, BEAT, datetime.now(UTC) - timedelta(seconds=1))
    await serve(shard)
    second = await due(shard.dsn)
    assert second.year == first.year + 1

    assert await run_timer(client.session, BEAT) == "RESCHEDULED"
    await serve(shard)

    assert await due(shard.dsn) == second
    assert await numbers(shard.dsn) == [("TRIGGERED", 1), ("TRIGGERED", 2)]


async def test_the_last_of_rn_that_was_moved_and_run_fires_beside_the_run_and_ends_it(
    shard: HolderClient, client: HolderClient
) -> None:
    await schedule(client, schedule="R1/PT1H", name="beat")
    await reschedule_timer(client.session, BEAT, Shift("P1D"))
    moved = await due(shard.dsn)

    assert await run_timer(client.session, BEAT) == "RESCHEDULED"
    await serve(shard)
    assert await due(shard.dsn) == moved
    await serve(shard, moved)

    assert await query(shard.dsn, "select from shardclock.timers") == []
    assert await numbers(shard.dsn) == [("TRIGGERED", 1), ("TRIGGERED", 2)]


async def test_a_run_that_is_paused_goes_on_and_one_that_is_moved_is_not_run_twice(
    shard: HolderClient, client: HolderClient
) -> None:
    await schedule(client, schedule="R3/PT1H", name="beat")
    before = await due(shard.dsn)

    assert await run_timer(client.session, BEAT) == "RESCHEDULED"
    await pause_timer(client.session, BEAT)
    await resume_timer(client.session, BEAT)
    await reschedule_timer(client.session, BEAT, Shift("PT20M"))
    assert await run_timer(client.session, BEAT) == "RESCHEDULED"
    await serve(shard)

    after = await row(shard.dsn)
    assert (after["due_date"], after["occurrence"], after["repetitions"]) == (before, 2, 4)
    assert await numbers(shard.dsn) == [("PAUSED", 1), ("RESUMED", 1), ("TRIGGERED", 1)]


async def test_another_rule_takes_the_place_of_the_date_that_was_kept_and_the_run_stays(
    shard: HolderClient, client: HolderClient
) -> None:
    await schedule(client, schedule="R/PT1H", name="beat")
    await run_timer(client.session, BEAT)

    assert await reschedule_timer(client.session, BEAT, NewRule("R/P1D")) == "RESCHEDULED"
    await serve(shard)

    after = await row(shard.dsn)
    assert (after["occurrence"], after["kept_due_date"]) == (2, None)
    assert after["due_date"] - after["anchor"] == DAY
    assert await numbers(shard.dsn) == [("TRIGGERED", 1)]


# What is missed


@pytest.mark.parametrize(
    ("missed", "expected"),
    [
        ("fire_once", [("TRIGGERED", 1), ("TRIGGERED", 2), ("SKIPPED", 3), *(("TRIGGERED", n) for n in (6, 7))]),
        ("fire_all", [("TRIGGERED", n) for n in (1, 2, 3, 4)]),
        ("skip", [("SKIPPED", 1), ("SKIPPED", 2), *(("TRIGGERED", n) for n in (6, 7, 8))]),
    ],
)
async def test_a_run_that_nobody_fired_in_time_leaves_the_missed_to_the_date_that_was_kept(
    shard: HolderClient, client: HolderClient, missed: str, expected: list[tuple[str, int]]
) -> None:
    # Given three hours and a run, and nobody fires for four hours and a half
    await schedule(client, schedule="R3/PT1H", name="beat", missed=missed)
    at = await due(shard.dsn) + 3.5 * HOUR
    await run_timer(client.session, BEAT)

    while rows := await query(shard.dsn, "select due_date from shardclock.timers"):
        await serve(shard, max(at, rows[0]["due_date"]))

    # Then it fires three times beside the run, which is not made up for if it was skipped.
    assert await numbers(shard.dsn) == expected


# What is told


async def test_the_outlook_after_a_run_begins_with_the_date_that_was_kept(
    shard: HolderClient, client: HolderClient
) -> None:
    await schedule(client, schedule="R/PT1H", name="beat")
    grid = await due(shard.dsn)
    await reschedule_timer(client.session, BEAT, Shift("PT30M"))
    await run_timer(client.session, BEAT)
    run = await due(shard.dsn)
    plan = await read_upcoming(shard.session, BEAT)
    assert plan

    seen = [outlook_of(plan, at) for at in (run, grid + 0.5 * HOUR, grid + 3 * HOUR)]

    assert [it.next.due_date for it in seen] == [run] * 3
    assert [it.due for it in seen] == [1, 2, 5]
    assert [it.after and (it.after.number, it.after.due_date) for it in seen] == [
        (2, grid + 0.5 * HOUR),
        (3, grid + HOUR),
        (6, grid + 4 * HOUR),
    ]
