"""Prove that a schedule keeps its grid and its numbers after a run, a move, a plan or a new rule."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from shardclock_server.shards.firing import is_unplanned, planning_of
from shardclock_server.sql.clients.outcomes import Scheduled
from shardclock_server.sql.clients.scheduling import draw_keys, schedule_timers
from shardclock_server.sql.clients.verbs import (
    NewRule,
    Shift,
    TimerRef,
    pause_timer,
    reschedule_timer,
    resume_timer,
    run_timer,
)
from shardclock_server.sql.firing.fire import pause_faulty, plan_schedules
from shardclock_server.timers.model import NewTimer
from shardclock_server.timers.occurrence import ScheduledOccurrence
from shardclock_server.timers.refusal import InvalidTimer
from shardclock_server.timers.schedule import first_of, parse_schedule
from tests.support.factories import HolderClient, add_holder, add_schedule, ends, query, waits
from tests.support.roles import OPERATOR
from tests.support.sql_client import schedule

HOUR = timedelta(hours=1)
BEAT = TimerRef(name="beat")


@pytest.fixture
async def shard(dsn: str) -> AsyncIterator[HolderClient]:
    await add_holder(dsn, 1)
    async with HolderClient(dsn, holder=1, plans={}, role=OPERATOR) as hand:
        yield hand


async def row(shard: HolderClient) -> dict[str, Any]:
    (found,) = await query(shard.dsn, "select * from shardclock.timers")
    return dict(found)


async def plan(shard: HolderClient) -> bool:
    """Claim and plan the due schedules, as a shard does; return whether the shard could plan all of them."""
    taken = (await shard.take(fire_overdue=True)).claimed
    assert taken
    assert all(is_unplanned(timer) for timer in taken)
    planned = await plan_schedules(shard.session, shard.holder, [planning_of(timer) for timer in taken])
    return planned == {timer.timer_key for timer in taken}


async def fire(shard: HolderClient, at: datetime) -> None:
    shard.now = at
    claimed = (await shard.take(fire_overdue=True)).claimed
    assert (await shard.fire(claimed)).timer_keys == {timer.timer_key for timer in claimed}
    shard.now = None


async def log(shard: HolderClient) -> list[tuple[str, int]]:
    rows = await query(shard.dsn, "select intent, occurrence from shardclock.command_log order by position")
    return [(it["intent"], it["occurrence"]) for it in rows]


# Run now


async def test_an_extra_run_of_a_repeat_changes_neither_its_dates_nor_its_count(shard: HolderClient) -> None:
    # Given the second of four hourly occurrences, half an hour before it is due
    key = await add_schedule(shard.dsn, "R4/PT1H", "now() + interval '30 minutes'",
        anchor="now() - interval '90 minutes'", occurrence="2", repetitions="4")  # fmt: skip
    before = await row(shard)

    # When the schedule is run, and fires
    assert await run_timer(shard.session, BEAT) == "RESCHEDULED"
    now = (await row(shard))["due_date"]
    assert before["due_date"] - now < HOUR
    await fire(shard, now)

    # Then the third occurrence gets the second occurrence's due date, and two more occurrences follow.
    for number in (3, 4, 5):
        after = await row(shard)
        due = before["due_date"] + (number - 3) * HOUR
        assert (after["occurrence"], after["due_date"], after["anchor"]) == (number, due, before["anchor"])
        await fire(shard, due)
    assert await query(shard.dsn, "select from shardclock.timers") == []
    assert await log(shard) == [("RESCHEDULED", 2), *(("TRIGGERED", number) for number in (2, 3, 4, 5))]
    assert await shard.value("select timer_key from shardclock.command_log order by position limit 1") == key


async def test_a_schedule_that_is_run_again_under_its_operation_after_it_has_fired_runs_once(
    shard: HolderClient,
) -> None:
    await schedule(shard, schedule="R/PT1H", name="beat")
    due = (await row(shard))["due_date"]
    for operation in ("deploy", "deploy", "deploy", "another", "another"):
        assert await run_timer(shard.session, BEAT, operation=operation) == "RESCHEDULED"
        await shard.fire((await shard.take()).claimed)

    assert [it[0] for it in await log(shard)] == ["RESCHEDULED", "TRIGGERED"] * 2
    assert (await row(shard))["due_date"] == due
    await schedule(shard, schedule="R/PT1H", name="other")
    assert await run_timer(shard.session, TimerRef(name="other"), operation="deploy") == "RESCHEDULED"
    assert await shard.value("select count(*) from shardclock.timers where due_date <= now()") == 1


async def test_a_repeated_run_waits_for_the_first_and_finds_its_result(shard: HolderClient) -> None:
    await schedule(shard, schedule="R/PT1H", name="beat")
    async with HolderClient(shard.dsn) as first, HolderClient(shard.dsn) as again:
        await first.begin()
        await run_timer(first.session, BEAT, operation="deploy")
        sent_again = await waits(again, run_timer(again.session, BEAT, operation="deploy"))
        await first.commit()
        await shard.fire((await shard.take()).claimed)

        assert await ends(sent_again) == "RESCHEDULED"

    assert await shard.value("select count(*) from shardclock.timers where due_date <= now()") == 0


async def test_timers_run_by_their_keys_run_once_under_an_operation(shard: HolderClient) -> None:
    key = await schedule(shard, delay="PT1H")
    run = "select count(*) from shardclock.run_timers(array[$1::bigint], 'deploy')"

    assert await shard.value(run, key) == 1
    assert await shard.reschedule(timer_key=key, delay="PT1H") == "RESCHEDULED"
    assert await shard.value(run, key) == 0


async def test_two_runs_of_one_schedule_count_as_one_in_any_order(shard: HolderClient) -> None:
    await schedule(shard, schedule="R/PT1H", name="beat")
    due = (await row(shard))["due_date"]
    async with HolderClient(shard.dsn) as slow:
        await slow.begin()
        await slow.value("select now()")

        assert await run_timer(shard.session, BEAT) == "RESCHEDULED"
        assert await run_timer(slow.session, BEAT) == "PENDING"
        await slow.commit()

    await fire(shard, (await row(shard))["due_date"])
    after = await row(shard)
    assert (after["occurrence"], after["due_date"]) == (2, due)


# To another rule


NEW_RULES = [
    NewRule("0 0 8 * * MON-FRI", "Europe/Berlin"),
    NewRule("r3/pt1h".upper(), missed="skip"),
    NewRule("R/P1M", "America/New_York", "fire_all"),
    NewRule("R/2024-02-29T09:00[Asia/Tokyo]/P1Y"),
]


@pytest.mark.parametrize("rule", NEW_RULES, ids=lambda rule: rule.schedule)
async def test_a_new_rule_gives_the_dates_and_the_numbers_continue(shard: HolderClient, rule: NewRule) -> None:
    # Given a schedule that has fired four times
    key = await add_schedule(shard.dsn, "R/PT1H", "now() + interval '1 hour'", occurrence="5")

    # When a client changes the rule, and a shard plans the schedule
    assert await reschedule_timer(shard.session, BEAT, rule) == "RESCHEDULED"
    waiting = await row(shard)
    assert (waiting["anchor_occurrence"], waiting["occurrence"]) == (None, 5)
    assert await plan(shard)

    # Then the fifth occurrence is the first of the new rule, counted from the change, and the next occurrences follow.
    read = parse_schedule(rule.schedule, rule.zone or "UTC")
    expected = first_of(read, waiting["anchor"], number=5)
    after = await row(shard)
    assert (after["timer_key"], after["schedule"], after["zone"]) == (key, rule.schedule, read.zone.key)
    found = ScheduledOccurrence(after["occurrence"], after["due_date"], after["anchor"], after["anchor_occurrence"])
    assert found == expected
    assert after["missed"] == (rule.missed or "fire_once")
    assert after["repetitions"] == (7 if read.repetitions == 3 else -1)
    assert after["claimed_by"] is None
    await fire(shard, expected.due_date)
    following = read.next(expected)
    assert following
    after = await row(shard)
    assert (after["occurrence"], after["due_date"]) == (6, following.due_date)


async def test_a_plain_timer_with_a_new_rule_becomes_a_schedule_with_a_name(shard: HolderClient) -> None:
    key = await schedule(shard, delay="PT1H", zone="Asia/Tokyo", payload="1")

    assert await reschedule_timer(shard.session, TimerRef(key), NewRule("0 8 * * *")) == "RESCHEDULED"
    assert await plan(shard)

    after = await row(shard)
    assert (after["timer_key"], after["name"], after["payload"]) == (key, f"schedule-{key}", "1")
    assert (after["schedule"], after["zone"], after["due_date"].hour) == ("0 8 * * *", "Asia/Tokyo", 23)


async def test_moving_an_occurrence_leaves_its_schedule_s_grid_unchanged(shard: HolderClient) -> None:
    await schedule(shard, schedule="R/PT1H", name="beat")
    before = await row(shard)

    for to in (before["due_date"] + 10 * timedelta(minutes=1), Shift("-PT5M")):
        await reschedule_timer(shard.session, BEAT, to)
    await fire(shard, (await row(shard))["due_date"])

    after = await row(shard)
    assert (after["occurrence"], after["due_date"], after["anchor"]) == (
        2,
        before["due_date"] + HOUR,
        before["anchor"],
    )


async def test_a_paused_timer_with_a_new_rule_remains_paused_until_it_is_resumed(shard: HolderClient) -> None:
    await schedule(shard, delay="PT0S", name="beat")
    await pause_timer(shard.session, BEAT)

    assert await reschedule_timer(shard.session, BEAT, NewRule("@hourly")) == "RESCHEDULED"

    assert (await shard.take(scope="sweep", fire_overdue=True)).claimed == []
    assert (await row(shard))["paused_due_date"] is not None
    assert await resume_timer(shard.session, BEAT) == "PENDING"
    assert await plan(shard)
    assert (await row(shard))["due_date"].minute == 0


# Missed occurrences


@pytest.mark.parametrize("missed", ["fire_once", "skip", "fire_all"])
async def test_a_schedule_of_three_fires_three_times_after_a_gap(shard: HolderClient, missed: str) -> None:
    # Given three hourly occurrences, the first of which fires in time
    await schedule(shard, schedule="R3/PT1H", name="beat", missed=missed)
    start = (await row(shard))["anchor"]
    await fire(shard, start + HOUR)

    # When no timer fires for ten hours and a quarter
    at = start + 11.25 * HOUR
    while rows := await query(shard.dsn, "select due_date from shardclock.timers"):
        at = max(at, rows[0]["due_date"])
        await fire(shard, at)

    # Then the schedule has fired three times. Only under fire_all did it fire the first three dates of its grid.
    triggered = {"fire_once": [1, 2, 12], "skip": [1, 12, 13], "fire_all": [1, 2, 3]}[missed]
    skipped = {"fire_once": [3], "skip": [2], "fire_all": []}[missed]
    assert sorted(await log(shard)) == sorted(
        [*(("TRIGGERED", number) for number in triggered), *(("SKIPPED", number) for number in skipped)]
    )


# Planning


async def test_a_schedule_without_a_date_is_due_at_once_and_is_planned_instead_of_fired(shard: HolderClient) -> None:
    await schedule(shard, schedule="0 0 8 * * MON", zone="Europe/Berlin", name="beat", missed="skip")
    before = await row(shard)
    assert before["due_date"] == before["anchor"] == before["created_at"]

    taken = await shard.take(fire_overdue=True)
    assert taken.fired == 0
    assert [timer.missed for timer in taken.claimed] == ["skip"]
    await plan_schedules(shard.session, shard.holder, [planning_of(timer) for timer in taken.claimed])

    local = (await row(shard))["due_date"].astimezone(ZoneInfo("Europe/Berlin"))
    assert (local.weekday(), local.hour, local.minute, local.second) == (0, 8, 0, 0)
    assert await log(shard) == []
    assert (await shard.take()).claimed == [], "it waits for its date"


@pytest.mark.parametrize("meanwhile", ["cancelled", "paused", "taken over", "changed"])
async def test_a_change_during_the_planning_is_kept(shard: HolderClient, meanwhile: str) -> None:
    key = await schedule(shard, schedule="0 8 * * *", name="beat")
    plannings = [planning_of(timer) for timer in (await shard.take()).claimed]
    act = {
        "cancelled": "select shardclock.cancel_timer(name => 'beat')",
        "paused": "select shardclock.pause_timer(name => 'beat')",
        "taken over": "update shardclock.timers set claimed_by = 2 returning 1",
        "changed": "select shardclock.reschedule_timer(name => 'beat', schedule => '@hourly')",
    }
    await shard.value(act[meanwhile])
    before = await query(shard.dsn, "select * from shardclock.timers")

    assert await plan_schedules(shard.session, shard.holder, plannings) == frozenset()

    assert await query(shard.dsn, "select * from shardclock.timers") == before
    assert [it[0] for it in before] == ([] if meanwhile == "cancelled" else [key])


async def test_a_planned_schedule_is_not_planned_again(shard: HolderClient) -> None:
    await schedule(shard, schedule="@daily")
    plannings = [planning_of(timer) for timer in (await shard.take()).claimed]
    await plan_schedules(shard.session, shard.holder, plannings)
    before = await row(shard)
    await shard.value("update shardclock.timers set claimed_by = 1, claimed_until = now() returning 1")

    assert await plan_schedules(shard.session, shard.holder, plannings) == frozenset()

    assert (await row(shard))["due_date"] == before["due_date"]


async def test_a_rule_that_no_shard_can_read_is_paused_with_the_reason_until_it_is_repaired(
    shard: HolderClient,
) -> None:
    # Given a rule that Shardclock refuses from a client
    key = await schedule(shard, schedule="0 0 28 2 *", name="beat", payload="1")
    await query(shard.dsn, "update shardclock.timers set schedule = '0 0 30 2 *'")
    (timer,) = (await shard.take()).claimed
    with pytest.raises(InvalidTimer) as refused:
        planning_of(timer)

    assert not await pause_faulty(shard.session, 2, timer, why="it is not theirs")
    assert await pause_faulty(shard.session, shard.holder, timer, why=str(refused.value))
    assert not await pause_faulty(shard.session, shard.holder, timer, why="it is not there any more")

    assert (await shard.take(scope="sweep")).claimed == []
    (record,) = await query(shard.dsn, "select intent, timer_key, holder, payload, detail from shardclock.command_log")
    assert tuple(record)[:4] == ("PAUSED", key, shard.holder, "1")
    assert "'0 0 30 2 *' never occurs" in record["detail"]
    assert await reschedule_timer(shard.session, BEAT, NewRule("0 0 28 2 *")) == "RESCHEDULED"
    assert await resume_timer(shard.session, BEAT) == "PENDING"
    assert await plan(shard)
    due = (await row(shard))["due_date"]
    assert (due.month, due.day, due.hour) == (2, 28, 0)


async def test_a_schedule_that_was_paused_before_it_was_planned_is_planned_when_it_is_resumed(
    shard: HolderClient,
) -> None:
    await schedule(shard, schedule="@hourly", name="beat")
    await pause_timer(shard.session, BEAT)
    assert (await shard.take()).claimed == []

    await resume_timer(shard.session, BEAT)

    assert await plan(shard)
    assert (await row(shard))["due_date"].minute == 0


async def test_python_plans_its_schedules_and_sql_leaves_them_to_a_shard_and_both_agree(shard: HolderClient) -> None:
    texts = ["0 0 8 * * MON", "R5/P1M", "R/2024-03-30T02:30[Europe/Berlin]/P1D", "R/PT36H/2051-01-01T00:00:00Z"]
    asked = [NewTimer.from_fields({"schedule": text, "zone": "Europe/Berlin", "name": text}) for text in texts]
    await shard.begin()
    keys = await draw_keys(shard.session, len(texts))
    outcomes = await schedule_timers(shard.session, keys, asked)
    for text in texts:
        await schedule(shard, schedule=text, zone="Europe/Berlin", name=text, tenant_id="sql")
    await shard.commit()
    assert all(isinstance(it, Scheduled) for it in outcomes)

    assert await plan(shard)

    columns = "name, schedule, zone, due_date, anchor, anchor_occurrence, occurrence, repetitions, missed"
    by_python, by_sql = [
        await query(shard.dsn, f"select {columns} from shardclock.timers where tenant_id = $1 order by 1", tenant)
        for tenant in ("default", "sql")
    ]
    assert by_python == by_sql
    assert len(by_sql) == len(texts)
    assert all(it["due_date"] > datetime.now(UTC) for it in by_sql)
