"""Prove that a resume's choice applies only to the occurrences that were missed during the pause."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest

from shardclock_server.sql.clients.verbs import (
    NewRule,
    TimerRef,
    pause_timer,
    pause_timers,
    reschedule_timer,
    resume_timer,
    resume_timers,
    run_timer,
)
from shardclock_server.timers.refusal import InvalidTimer
from tests.support.factories import HolderClient, add_holder, add_schedule, query
from tests.support.occurrences import numbers, row, serve
from tests.support.roles import OPERATOR
from tests.support.sql_client import schedule

HOUR = timedelta(hours=1)
BEAT = TimerRef(name="beat")
POLICIES = ("fire_once", "fire_all", "skip")
# Four hourly occurrences are missed: the first 3.5 hours ago, the last half an hour ago.
MISSED = 4
OUTCOMES: dict[str, list[tuple[str, int]]] = {
    "skip": [("SKIPPED", 1)],
    "fire_once": [("TRIGGERED", 1), ("SKIPPED", 2)],
    "fire_all": [("TRIGGERED", number) for number in range(1, MISSED + 1)],
}
PAUSES = [("PAUSED", 1), ("RESUMED", 1)]


@pytest.fixture
async def shard(dsn: str) -> AsyncIterator[HolderClient]:
    await add_holder(dsn, 1)
    async with HolderClient(dsn, holder=1, plans={}, role=OPERATOR) as hand:
        yield hand


async def paused(shard: HolderClient, missed: str = "fire_once", *, has_period: bool = False, **more: str) -> None:
    """Pause an hourly schedule that has missed four occurrences."""
    start = "now() - interval '210 minutes'"
    period = {"period_us": "3600000000"} if has_period else {}
    await add_schedule(
        shard.dsn, "R/PT1H", start, anchor=f"{start} - interval '1 hour'", missed=f"'{missed}'", **period, **more
    )
    assert await pause_timer(shard.session, BEAT) == "PAUSED"


async def claimed_and_fired(shard: HolderClient) -> None:
    """Serve all due timers with claims that also fire, as a running shard does."""
    for _ in range(20):
        taken = await shard.take(fire_overdue=True, horizon_s=0.0)
        if taken.claimed:
            await shard.fire(taken.claimed)
        elif not taken.fired and not taken.skipped:
            return
    raise AssertionError("the schedule did not catch up")


async def skipped(dsn: str) -> list[tuple[int, str]]:
    found = await query(dsn, "select detail from shardclock.command_log where intent = 'SKIPPED' order by position")
    details = [json.loads(it["detail"]) for it in found]
    return [(detail["count"], detail["policy"]) for detail in details]


async def resumed(dsn: str) -> list[str | None]:
    text = "select detail ->> 'missed' as missed from shardclock.command_log where intent = 'RESUMED' order by position"
    return [it["missed"] for it in await query(dsn, text)]


@pytest.mark.parametrize("has_period", [False, True], ids=["by rule", "by period"])
@pytest.mark.parametrize("own", POLICIES)
@pytest.mark.parametrize("choice", ["policy", *POLICIES])
async def test_the_choice_replaces_the_schedules_rule_for_the_missed_occurrences(
    shard: HolderClient, choice: str, own: str, *, has_period: bool
) -> None:
    await paused(shard, own, has_period=has_period)
    before = await row(shard.dsn)

    assert await resume_timer(shard.session, BEAT, missed=choice) == "PENDING"
    await claimed_and_fired(shard)

    rule = own if choice == "policy" else choice
    assert await numbers(shard.dsn) == PAUSES + OUTCOMES[rule]
    after = await row(shard.dsn)
    assert (after["occurrence"], after["due_date"]) == (5, before["paused_due_date"] + MISSED * HOUR)
    assert (after["missed"], after["missed_once"], after["changed_at"]) == (own, None, None)
    assert await resumed(shard.dsn) == [None if choice == "policy" else choice]
    assert await skipped(shard.dsn) == {"skip": [(4, "skip")], "fire_once": [(3, "fire_once")]}.get(rule, [])


async def test_a_schedule_of_a_fixed_period_has_its_period_again_after_the_catch_up(shard: HolderClient) -> None:
    await paused(shard, has_period=True)

    await resume_timer(shard.session, BEAT, missed="fire_all")
    assert (await row(shard.dsn))["period_us"] is None
    await claimed_and_fired(shard)

    assert (await row(shard.dsn))["period_us"] == 3_600_000_000


async def test_the_choice_skip_skips_even_an_occurrence_that_was_missed_a_moment_ago(shard: HolderClient) -> None:
    await add_schedule(shard.dsn, "R/PT1H", "now() - interval '5 s'", anchor="now() - interval '1 hour 5 s'")
    await pause_timer(shard.session, BEAT)

    await resume_timer(shard.session, BEAT, missed="skip")
    await claimed_and_fired(shard)

    assert await numbers(shard.dsn) == [*PAUSES, ("SKIPPED", 1)]
    assert (await row(shard.dsn))["occurrence"] == 2


@pytest.mark.parametrize(
    ("choice", "own", "expected"),
    [
        # Occurrences 5 to 7 become due after the resume, while no shard runs.
        ("skip", "fire_all", [("SKIPPED", 1), ("TRIGGERED", 5), ("TRIGGERED", 6), ("TRIGGERED", 7)]),
        ("fire_once", "fire_all", [*OUTCOMES["fire_once"], ("TRIGGERED", 5), ("TRIGGERED", 6), ("TRIGGERED", 7)]),
        ("fire_all", "skip", [*OUTCOMES["fire_all"], ("SKIPPED", 5)]),
        ("fire_all", "fire_once", [*OUTCOMES["fire_all"], ("TRIGGERED", 5), ("SKIPPED", 6)]),
    ],
)
async def test_occurrences_that_are_missed_after_the_resume_follow_the_schedules_rule(
    shard: HolderClient, choice: str, own: str, expected: list[tuple[str, int]]
) -> None:
    await paused(shard, own)
    await resume_timer(shard.session, BEAT, missed=choice)

    await serve(shard, await shard.value("select now() + interval '2 hours 45 minutes'"))

    assert await numbers(shard.dsn) == PAUSES + expected
    assert (await row(shard.dsn))["occurrence"] == 8


async def test_a_repeat_of_n_still_fires_n_times_after_a_skip(shard: HolderClient) -> None:
    await paused(shard, repetitions="2")

    await resume_timer(shard.session, BEAT, missed="skip")
    await serve(shard, await shard.value("select now() + interval '45 minutes'"))
    await serve(shard, await shard.value("select now() + interval '105 minutes'"))

    assert await numbers(shard.dsn) == [*PAUSES, ("SKIPPED", 1), ("TRIGGERED", 5), ("TRIGGERED", 6)]
    assert await query(shard.dsn, "select 1 from shardclock.timers") == []


async def test_a_resume_before_the_next_date_stores_no_choice(shard: HolderClient) -> None:
    await add_schedule(shard.dsn, "R/PT1H", "now() + interval '1 hour'")
    await pause_timer(shard.session, BEAT)

    await resume_timer(shard.session, BEAT, missed="skip")

    # The choice does not apply to a later move: if a client moves the timer to a date in the past, the timer fires.
    assert (await row(shard.dsn))["missed_once"] is None
    await reschedule_timer(shard.session, BEAT, await shard.value("select now() - interval '1 s'"))
    await claimed_and_fired(shard)
    assert await numbers(shard.dsn) == [*PAUSES, ("TRIGGERED", 1)]


async def test_a_run_on_request_that_was_paused_follows_the_choice_and_keeps_the_dates(shard: HolderClient) -> None:
    await add_schedule(shard.dsn, "R/PT1H", "now() + interval '30 minutes'", anchor="now() - interval '30 minutes'")
    before = await row(shard.dsn)
    await run_timer(shard.session, BEAT)
    await pause_timer(shard.session, BEAT)

    await resume_timer(shard.session, BEAT, missed="skip")
    await claimed_and_fired(shard)

    assert await numbers(shard.dsn) == [*PAUSES, ("SKIPPED", 1)]
    after = await row(shard.dsn)
    assert (after["occurrence"], after["due_date"], after["missed_once"]) == (2, before["due_date"], None)


async def test_a_plain_timer_is_due_immediately_with_every_choice(shard: HolderClient) -> None:
    key = await schedule(shard, due_date=await shard.value("select now() - interval '1 hour'"))
    await pause_timers(shard.session, [key])

    assert len(await resume_timers(shard.session, [key], missed="skip")) == 1
    await claimed_and_fired(shard)

    assert await numbers(shard.dsn) == [*PAUSES, ("TRIGGERED", 1)]


@pytest.mark.parametrize("change", ["moved", "another rule"])
async def test_a_change_of_the_timer_ends_the_choice(shard: HolderClient, change: str) -> None:
    await paused(shard)
    await resume_timer(shard.session, BEAT, missed="skip")

    to: Any = NewRule("R/PT2H") if change == "another rule" else await shard.value("select now() - interval '1 s'")
    await reschedule_timer(shard.session, BEAT, to)

    assert (await row(shard.dsn))["missed_once"] is None
    await serve(shard)
    expected = [("TRIGGERED", 1), ("SKIPPED", 2)] if change == "moved" else []
    assert await numbers(shard.dsn) == PAUSES + expected


@pytest.mark.parametrize("choice", ["never", "", "SKIP"])
async def test_an_unknown_choice_is_refused_and_the_timer_remains_paused(shard: HolderClient, choice: str) -> None:
    await paused(shard)
    key = (await row(shard.dsn))["timer_key"]

    with pytest.raises(InvalidTimer) as refused:
        await resume_timer(shard.session, BEAT, missed=choice)
    with pytest.raises(InvalidTimer):
        await resume_timers(shard.session, [key], missed=choice)

    assert refused.value.code.name == "invalid_missed"
    assert str(refused.value) == f"missed '{choice}' is unknown: use policy, skip, fire_once or fire_all"
    assert (await row(shard.dsn))["paused_due_date"] is not None
