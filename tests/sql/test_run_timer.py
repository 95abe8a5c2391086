"""Prove that a run or a new rule fires no occurrence twice, and changes no date of a schedule."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from shardclock_server.service.next_due import next_due_of
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
    found: datetime = (await row(dsn))["due_date"]
    return found


async def fired(dsn: str, intent: str = "TRIGGERED") -> list[datetime]:
    text = "select due_date from shardclock.command_log where intent = $1 order by position"
    return [found["due_date"] for found in await query(dsn, text, intent)]


# A run in a transaction that began before other occurrences fired


async def fire_until(shard: HolderClient, count: int) -> None:
    """Fire one occurrence each second, until `count` occurrences have fired in total."""
    while len(await fired(shard.dsn)) < count:
        await serve(shard)
        await asyncio.sleep(0.05)


@pytest.mark.slow
@pytest.mark.parametrize("missed", ["fire_all", "fire_once", "skip"])
@pytest.mark.parametrize("verb", ["run", "rule", "replace"])
async def test_occurrences_that_fire_while_the_caller_s_transaction_is_open_fire_once(
    shard: HolderClient, client: HolderClient, verb: str, missed: str
) -> None:
    # Given a transaction that began before two occurrences fired
    await schedule(client, schedule=EACH_SECOND, name="beat", missed=missed)
    await serve(shard)
    await client.begin()
    await client.value("select now()")
    await fire_until(shard, 2)

    # When the client runs the schedule, sets the same rule again, or replaces the schedule by one with the same rule
    if verb == "run":
        assert await run_timer(client.session, BEAT) == "RESCHEDULED"
    elif verb == "rule":
        assert await reschedule_timer(client.session, BEAT, NewRule(EACH_SECOND)) == "RESCHEDULED"
    else:
        await schedule(client, schedule=EACH_SECOND, name="beat", missed=missed, on_conflict="replace", payload="1")
    await client.commit()
    await serve(shard)
    await fire_until(shard, 4)

    # Then each date comes once, in order, and no skip is recorded.
    dates = await fired(shard.dsn)
    assert dates == sorted(set(dates))
    assert sum(date.microsecond > 0 for date in dates) == (verb == "run")
    assert await fired(shard.dsn, "SKIPPED") == []


async def test_a_new_rule_after_a_clock_was_set_back_gives_no_date_that_has_fired(
    shard: HolderClient, client: HolderClient
) -> None:
    await add_schedule(shard.dsn, "@hourly", "now() + interval '1 minute'", anchor="now()", occurrence="7",
        created_at="now() + interval '30 days'")  # fmt: skip
    made = (await row(shard.dsn))["created_at"]

    assert await reschedule_timer(client.session, BEAT, NewRule("@hourly")) == "RESCHEDULED"
    await serve(shard)

    assert await due(shard.dsn) > made


# Moved dates


RULES = ["0 0 8 1 1 *", "R/PT1H", "R/P1M", "R/2031-01-31T08:00:00Z/P1M"]


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("shift", ["PT30M", "-PT20M", "P1Y", None])
async def test_a_run_changes_neither_a_moved_date_nor_the_dates_after_it(
    shard: HolderClient, client: HolderClient, rule: str, shift: str | None
) -> None:
    # Given a schedule with a moved next date, and the following date of its rule
    await schedule(client, schedule=rule, name="beat", missed="fire_all")
    await serve(shard)
    grid = await due(shard.dsn)
    if shift:
        await reschedule_timer(client.session, BEAT, Shift(shift))
    moved = await row(shard.dsn)

    # When the schedule is run
    assert await run_timer(client.session, BEAT) == "RESCHEDULED"
    await serve(shard)

    # Then the schedule's next date is unchanged, and the next date of the rule follows.
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
    """Claim the timers due at a moment; the client's clock stays at this moment."""
    shard.now = at
    return (await shard.take(horizon_s=0.0)).claimed


@pytest.mark.parametrize("rule", ["0 0 8 1 1 *", "R/P1Y"])
async def test_a_run_restores_no_date_that_was_moved_forward_and_has_fired(
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


async def test_the_moved_last_occurrence_of_a_count_fires_after_an_extra_run_and_ends_the_schedule(
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


async def test_a_paused_run_continues_and_a_moved_run_does_not_fire_twice(
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


async def test_a_new_rule_replaces_the_kept_date_and_does_not_change_the_run(
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


# Missed dates


@pytest.mark.parametrize(
    ("missed", "expected"),
    [
        ("fire_once", [("TRIGGERED", 1), ("TRIGGERED", 2), ("SKIPPED", 3), *(("TRIGGERED", n) for n in (6, 7))]),
        ("fire_all", [("TRIGGERED", n) for n in (1, 2, 3, 4)]),
        ("skip", [("SKIPPED", 1), ("SKIPPED", 2), *(("TRIGGERED", n) for n in (6, 7, 8))]),
    ],
)
async def test_a_late_run_leaves_missed_occurrences_to_the_kept_date(
    shard: HolderClient, client: HolderClient, missed: str, expected: list[tuple[str, int]]
) -> None:
    # Given three hourly occurrences and a run, and no shard for four and a half hours
    await schedule(client, schedule="R3/PT1H", name="beat", missed=missed)
    at = await due(shard.dsn) + 3.5 * HOUR
    await run_timer(client.session, BEAT)

    while rows := await query(shard.dsn, "select due_date from shardclock.timers"):
        await serve(shard, max(at, rows[0]["due_date"]))

    # Then the schedule fires three times in addition to the run; a skipped run is not repeated.
    assert await numbers(shard.dsn) == expected


# The next occurrences


async def test_the_next_occurrences_after_a_run_begin_with_the_kept_date(
    shard: HolderClient, client: HolderClient
) -> None:
    await schedule(client, schedule="R/PT1H", name="beat")
    grid = await due(shard.dsn)
    await reschedule_timer(client.session, BEAT, Shift("PT30M"))
    await run_timer(client.session, BEAT)
    run = await due(shard.dsn)
    plan = await read_upcoming(shard.session, BEAT)
    assert plan

    seen = [next_due_of(plan, at) for at in (run, grid + 0.5 * HOUR, grid + 3 * HOUR)]

    assert [it.next.due_date for it in seen] == [run] * 3
    assert [it.due for it in seen] == [1, 2, 5]
    assert [it.after and (it.after.number, it.after.due_date) for it in seen] == [
        (2, grid + 0.5 * HOUR),
        (3, grid + HOUR),
        (6, grid + 4 * HOUR),
    ]
