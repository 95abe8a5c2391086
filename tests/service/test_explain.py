"""`explain` returns, from the records, why a timer has fired or has not fired until the moment of the question."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from shardclock_server.service.explain import explain
from shardclock_server.service.timeline import read_timeline, show_moment
from shardclock_server.sql.clients.scheduling import draw_keys, schedule_timers
from shardclock_server.sql.clients.verbs import (
    NewRule,
    TimerRef,
    cancel_timer,
    pause_timer,
    reschedule_timer,
    resume_timer,
)
from shardclock_server.sql.clients.writing import Drawn
from shardclock_server.sql.cluster.leadership import set_ramp
from shardclock_server.sql.firing.fire import pause_faulty
from shardclock_server.timers.model import NewTimer
from tests.support.explaining import why
from tests.support.factories import HolderClient, add_schedule, add_timers, query

MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
REPLACE = "select shardclock.schedule_timer(delay => $1, name => 'n', on_conflict => 'replace')"


async def test_a_fired_timer_is_explained_with_its_date_its_delay_and_its_holder(dsn: str, shard: HolderClient) -> None:
    (key,) = await add_timers(dsn, 1, "now()")
    await shard.take(fire_overdue=True)

    answer = await why(shard, TimerRef(key))

    assert answer.verdict == "FIRED"
    assert answer.why.endswith("later, by holder 000000000000beef (test, pid 1 on test)")
    assert answer.record is not None
    assert answer.record.timer_key == key


async def test_a_firing_that_was_late_for_lack_of_a_shard_is_explained_by_this_lack(
    dsn: str, shard: HolderClient
) -> None:
    (key,) = await add_timers(dsn, 1, "now() - interval '1 hour'", created_at="now() - interval '2 hours'")
    await shard.take(fire_overdue=True)

    assert (await why(shard, TimerRef(key))).why.endswith("no shard was running when the timer became due")


async def test_a_timer_with_a_date_in_the_past_is_explained_by_its_creation(dsn: str, shard: HolderClient) -> None:
    (key,) = await add_timers(dsn, 1, "now() - interval '1 hour'", created_at="now()")
    overdue = await why(shard, TimerRef(key))
    await shard.take(fire_overdue=True)

    fired = (await why(shard, TimerRef(key))).why

    assert "with a date in the past, and the timer waits in the ramp" in overdue.why
    assert re.search(r"with a date in the past, and fired \d+\.\d m?s after that$", fired)


async def test_for_a_moment_before_its_creation_a_timer_is_explained_as_not_yet_created(
    dsn: str, shard: HolderClient
) -> None:
    (key,) = await add_timers(dsn, 1, "now() + interval '1 hour'")

    assert (await why(shard, TimerRef(key), NOON)).verdict == "NOT_YET_MADE"
    assert (await why(shard, TimerRef(key + 1))).verdict == "NONE"


async def test_a_timer_that_is_not_due_is_explained_by_its_date_and_its_move(dsn: str, shard: HolderClient) -> None:
    await add_timers(dsn, 1, "now() + interval '1 hour'", name="'n'")
    which = TimerRef(name="n")
    assert (await why(shard, which)).why.startswith("nothing was due then: the next date is ")

    await reschedule_timer(shard.session, which, datetime(2031, 1, 1, tzinfo=UTC))

    answer = await why(shard, which, datetime(2030, 1, 1, tzinfo=UTC))
    assert (answer.verdict, "the next date is 2031-01-01 00:00:00.000Z; at " in answer.why) == ("NOT_DUE", True)


async def test_a_cancelled_timer_is_explained_by_author_and_reason_until_its_name_is_used_again(
    dsn: str, shard: HolderClient
) -> None:
    which = TimerRef(name="n")
    await add_timers(dsn, 1, "now() + interval '1 hour'", name="'n'")
    await cancel_timer(shard.session, which, reason="paid")

    answer = await why(shard, which)
    assert answer.verdict == "CANCELED"
    assert "by test_operator (paid)" in answer.why

    await add_timers(dsn, 1, "now() + interval '1 hour'", name="'n'")
    assert (await why(shard, which)).verdict == "NOT_DUE"


@pytest.mark.parametrize("again", ["replaced", "cancelled and scheduled in one transaction"])
async def test_a_reused_name_is_explained_by_its_new_timer(dsn: str, shard: HolderClient, again: str) -> None:
    which = TimerRef(name="n")
    await shard.value(REPLACE, "PT1H")
    canceled_at: datetime = await shard.value("select clock_timestamp()")
    if again == "replaced":
        await shard.value(REPLACE, "PT2H")
    else:
        await shard.begin()
        await shard.value("select shardclock.cancel_timer(name => 'n')")
        await shard.value(REPLACE, "PT2H")
        await shard.commit()

    assert (await why(shard, which)).verdict == "NOT_DUE"
    assert (await why(shard, which, canceled_at + 6 * HOUR)).verdict == "PLANNED"
    (ended,) = await query(dsn, "select timer_key from shardclock.command_log where intent = 'CANCELED'")
    assert (await why(shard, TimerRef(ended["timer_key"]))).verdict == "CANCELED"

    await query(dsn, "update shardclock.timers set due_date = now()")
    await shard.take(fire_overdue=True)
    assert (await why(shard, which)).verdict == "FIRED"


async def test_a_pause_explains_a_paused_timer_and_its_late_firing(dsn: str, shard: HolderClient) -> None:
    which = TimerRef(name="n")
    await add_timers(dsn, 1, "now() - interval '1 minute'", name="'n'", created_at="now() - interval '1 hour'")
    await pause_timer(shard.session, which, reason="holiday")
    paused = await why(shard, which)
    await resume_timer(shard.session, which)
    await shard.take(fire_overdue=True)
    fired = await why(shard, which)

    assert (paused.verdict, "by test_operator (holiday)" in paused.why) == ("PAUSED", True)
    assert fired.verdict == "FIRED"
    assert re.search(r": the timer was paused from .+Z until .+Z by \w+ \(holiday\), and fired .+s after", fired.why)


async def test_a_refused_schedule_is_explained_by_its_refusal(dsn: str, shard: HolderClient) -> None:
    await shard.value("select shardclock.schedule_timer(schedule => '0 0 28 2 *', name => 'n')")
    await query(dsn, "update shardclock.timers set schedule = '0 0 30 2 *'")
    (timer,) = (await shard.take()).claimed
    assert await pause_faulty(shard.session, shard.holder, timer, why="it never occurs")

    answer = await why(shard, TimerRef(name="n"))

    assert (answer.verdict, answer.why.endswith("it never occurs")) == ("REFUSED", True)


async def test_an_overdue_timer_is_explained_by_the_event_that_it_waits_for(dsn: str, shard: HolderClient) -> None:
    (old, claimed) = await add_timers(dsn, 2, "now() - i * interval '1 hour'", created_at="now() - interval '9 hours'")
    told = (await why(shard, TimerRef(old))).why
    turn = "and the timer waits in the ramp, which fires 150,000 timers a second: a timer without a tenant has no share"
    turn += ", and fires in the order of all overdue timers"
    assert re.search(
        rf"no shard was running when the timer became due, {turn}; shards run since .+Z \(`shardclock ramp`\)$", told
    )

    await query(dsn, "update shardclock.holders set started_at = now() - interval '1 day'")
    assert (await why(shard, TimerRef(old))).why.endswith(f"an outage left it, {turn} (`shardclock ramp`)")
    await query(dsn, "update shardclock.timers set claimed_by = 7, claimed_until = now() where timer_key = $1", claimed)
    assert "holder 0000000000000007 has claimed it" in (await why(shard, TimerRef(claimed))).why


@pytest.mark.parametrize(
    ("tenant_id", "target", "share"),
    [
        ("acme", "log", "each tenant has an equal share, and its oldest timers fire first"),
        ("default", "job:report", "the starts of all jobs together have the share of one tenant"),
    ],
)
async def test_an_overdue_timer_is_explained_with_its_share_of_the_ramp(
    dsn: str, shard: HolderClient, tenant_id: str, target: str, share: str
) -> None:
    (key,) = await add_timers(dsn, 1, "now() - interval '1 hour'", created_at="now() - interval '2 hours'")
    now = await shard.value("select clock_timestamp()")
    timeline = await read_timeline(shard.session, TimerRef(key), now, now, identity="", silent_s=5.0)
    assert timeline.timer is not None

    told = explain(replace(timeline, timer=replace(timeline.timer, tenant_id=tenant_id, target=target)), now)

    assert f"which fires 150,000 timers a second: {share}" in told.why


@pytest.mark.parametrize(
    ("per_s", "rate"), [(None, "which has no limit"), (0, "which is 0 and delays all these timers")]
)
async def test_an_overdue_timer_is_explained_with_the_rate_of_the_ramp(
    dsn: str, shard: HolderClient, per_s: int | None, rate: str
) -> None:
    (key,) = await add_timers(dsn, 1, "now() - interval '1 hour'", created_at="now() - interval '2 hours'")
    await set_ramp(shard.session, per_s)

    assert f"the timer waits in the ramp, {rate};" in (await why(shard, TimerRef(key))).why


async def test_an_overdue_timer_is_explained_by_the_lack_of_live_shards(dsn: str, shard: HolderClient) -> None:
    (key,) = await add_timers(dsn, 1, "now() - interval '1 hour'", created_at="now() - interval '2 hours'")
    await query(dsn, "update shardclock.holders set part = null, part_count = null")

    sentence = (await why(shard, TimerRef(key))).why
    assert sentence.endswith("no shard was running when the timer became due, and no shard runs")


@pytest.mark.parametrize("verb", ["moved", "resumed"])
async def test_a_delay_by_a_client_is_not_explained_as_an_outage(dsn: str, shard: HolderClient, verb: str) -> None:
    which = TimerRef(name="n")
    await query(dsn, "update shardclock.holders set started_at = now() - interval '30 days'")
    await add_timers(dsn, 1, "now() - interval '2 days'", name="'n'", created_at="now() - interval '9 days'")
    if verb == "moved":
        await query(dsn, "update shardclock.timers set due_date = now() + interval '1 hour'")
        await reschedule_timer(shard.session, which, await shard.value("select now() - interval '2 days'"))
    else:
        await pause_timer(shard.session, which)
        await resume_timer(shard.session, which)

    told = (await why(shard, which)).why

    reason = "the timer was moved to this date at" if verb == "moved" else "the timer was paused from .+Z until"
    assert re.search(rf"{reason} .+Z( by \w+)?, and the timer waits in the ramp", told)


@pytest.mark.parametrize("verb", ["moved", "resumed"])
async def test_a_shard_that_started_after_the_due_date_and_before_a_clients_change_counts_as_running(
    dsn: str, shard: HolderClient, verb: str
) -> None:
    which = TimerRef(name="n")
    await add_timers(dsn, 1, "now() - interval '2 days'", name="'n'", created_at="now() - interval '9 days'")
    await pause_timer(shard.session, which)
    await resume_timer(shard.session, which)
    if verb == "moved":
        await reschedule_timer(shard.session, which, await shard.value("select now() - interval '1 day'"))

    assert "no shard was running" not in (await why(shard, which)).why


@pytest.mark.parametrize(
    ("missed", "at_its_date", "in_the_gap"),
    [("fire_once", "FIRED", "SKIPPED"), ("skip", "SKIPPED", "SKIPPED"), ("fire_all", "FIRED", "FIRED")],
)
async def test_a_moment_in_a_gap_is_explained_by_the_policy_for_missed_occurrences(
    dsn: str, shard: HolderClient, missed: str, at_its_date: str, in_the_gap: str
) -> None:
    # Given an hourly schedule that no shard fired for ten hours
    timer = NewTimer.from_fields({"schedule": "R/PT1H", "name": "n", "missed": missed})
    drawn = await draw_keys(shard.session, 1)
    await schedule_timers(shard.session, Drawn(drawn.keys, NOON), [timer])
    await query(dsn, "update shardclock.timers set created_at = $1", NOON)
    shard.now = NOON + 10 * HOUR + MINUTE * 30
    for _ in range(12):
        await shard.fire((await shard.take()).claimed)

    first = await why(shard, TimerRef(name="n"), NOON + HOUR)
    later = await why(shard, TimerRef(name="n"), NOON + 5 * HOUR + MINUTE)
    assert (first.verdict, later.verdict) == (at_its_date, in_the_gap)
    if in_the_gap == "SKIPPED":
        assert f"skipped under {missed}" in later.why


async def test_a_schedule_s_occurrence_is_explained_with_its_number(dsn: str, shard: HolderClient) -> None:
    await add_schedule(dsn, "R/PT1H", name="'n'", created_at="now() - interval '2 hours'")
    await shard.fire((await shard.take()).claimed)

    answer = await why(shard, TimerRef(name="n"))

    assert answer.why.startswith("occurrence 1, due at ")
    (second,) = await query(dsn, "select due_date from shardclock.timers")
    assert answer.why.endswith(f"; the next date is {show_moment(second['due_date'])}")


async def test_a_fired_timer_is_not_explained_with_the_date_of_another_timer_of_its_name(
    dsn: str, shard: HolderClient
) -> None:
    await add_timers(dsn, 1, name="'n'")
    await shard.fire((await shard.take()).claimed)
    await add_timers(dsn, 1, "now() + interval '1 hour'", name="'n'")

    answer = await why(shard, TimerRef(name="n"))

    assert answer.verdict == "FIRED"
    assert "the next date" not in answer.why


async def test_an_older_occurrence_is_not_explained_with_the_next_date(dsn: str, shard: HolderClient) -> None:
    await add_schedule(dsn, "R/PT1H", name="'n'", created_at="now() - interval '2 hours'")
    await shard.fire((await shard.take()).claimed)
    (second,) = await query(dsn, "select due_date from shardclock.timers")
    shard.now = second["due_date"] + MINUTE
    await shard.fire((await shard.take()).claimed)

    first = await why(shard, TimerRef(name="n"))

    assert first.why.startswith("occurrence 1, due at ")
    assert "the next date" not in first.why


async def test_a_moment_in_the_future_is_explained_by_the_plan(dsn: str, shard: HolderClient) -> None:
    which = TimerRef(name="n")
    await add_timers(dsn, 1, "timestamptz '2031-01-01Z'", name="'n'")

    planned = await why(shard, which, datetime(2031, 1, 1, tzinfo=UTC))
    before = await why(shard, which, datetime(2030, 12, 31, tzinfo=UTC))

    assert (planned.verdict, planned.why) == ("PLANNED", "the timer is planned for 2031-01-01 00:00:00.000Z")
    assert before.verdict == "NOT_DUE"
    assert before.why == "no occurrence is planned before this moment: the next date is 2031-01-01 00:00:00.000Z"


FIRST = "PLANNED: occurrence 1 is planned for 2031-01-01 01:00:00.000Z"
AFTER = "the occurrence after that is at 2031-01-01"


@pytest.mark.parametrize(
    ("repetitions", "moment", "told"),
    [
        (-1, "00:30", "NOT_DUE: no occurrence is planned before this moment: the next date is 2031-01-01 01:00"),
        (
            -1,
            "01:00",
            f"{FIRST}; {AFTER} 02:00",
        ),
        (-1, "05:30", f"{FIRST}, and 4 more until then; {AFTER} 06:00"),
        (3, "02:30", f"{FIRST}, and 1 more until then; {AFTER} 03:00"),
        (
            3,
            "03:00",
            f"{FIRST}, and 2 more until then; then it ends",
        ),
        (
            3,
            "23:00",
            f"{FIRST}, and 2 more until then; then it ends",
        ),
    ],
)
async def test_a_schedule_s_future_is_explained_by_its_occurrences(
    dsn: str, shard: HolderClient, repetitions: int, moment: str, told: str
) -> None:
    at = {"due": "timestamptz '2031-01-01 01:00Z'", "anchor": "timestamptz '2031-01-01Z'"}
    await add_schedule(dsn, "R/PT1H", name="'n'", repetitions=str(repetitions), **at)

    answer = await why(shard, TimerRef(name="n"), datetime.fromisoformat(f"2031-01-01T{moment}Z"))

    assert f"{answer.verdict}: {answer.why}".startswith(told)


@pytest.mark.parametrize(
    ("missed", "told"),
    [
        ("fire_once", "and 1 more until then; the occurrence after that is at 2031-01-01 07:00"),
        ("skip", "and 1 more until then; the occurrence after that is at 2031-01-01 07:00"),
        ("fire_all", "and 4 more until then; then it ends"),
    ],
)
async def test_after_an_occurrence_that_was_moved_behind_others_the_policy_for_missed_occurrences_applies(
    dsn: str, shard: HolderClient, missed: str, told: str
) -> None:
    # Given five hourly occurrences, the first at one o'clock. A client moved the first occurrence behind all other
    # occurrences.
    at = {"due": "timestamptz '2031-01-01 05:09Z'", "anchor": "timestamptz '2031-01-01Z'"}
    await add_schedule(dsn, "R5/PT1H", name="'n'", repetitions="5", missed=f"'{missed}'", **at)

    answer = await why(shard, TimerRef(name="n"), datetime(2031, 1, 1, 6, 30, tzinfo=UTC))

    assert told in answer.why


async def test_a_schedule_that_no_shard_has_planned_yet_is_explained_by_its_rule(dsn: str, shard: HolderClient) -> None:
    await shard.value("select shardclock.schedule_timer(schedule => '0 8 * * *', name => 'n')")

    answer = await why(shard, TimerRef(name="n"), datetime(2099, 1, 1, tzinfo=UTC))

    assert (answer.verdict, "the occurrence after that is at 2099-01-01 08:00" in answer.why) == ("PLANNED", True)
    now = await why(shard, TimerRef(name="n"))
    assert (now.verdict, " 08:00:00.000Z" in now.why) == ("NOT_DUE", True), "its due date, which reads now, is none"


async def test_a_future_without_a_firing_is_explained_by_its_reason(dsn: str, shard: HolderClient) -> None:
    await add_timers(dsn, 2, "timestamptz '2031-01-01Z'", name="'n' || i")
    late = datetime(2032, 1, 1, tzinfo=UTC)
    await pause_timer(shard.session, TimerRef(name="n1"))
    await cancel_timer(shard.session, TimerRef(name="n2"))

    assert (await why(shard, TimerRef(name="n1"), late)).verdict == "PAUSED"
    assert (await why(shard, TimerRef(name="n2"), late)).verdict == "CANCELED"
    (overdue,) = await add_timers(dsn, 1, "now() - interval '1 minute'")
    assert (await why(shard, TimerRef(overdue), late)).verdict == "OVERDUE"
    await query(dsn, "delete from shardclock.holders")
    (held,) = await add_timers(dsn, 1, "timestamptz '2031-01-01Z'")
    await query(dsn, "update shardclock.identity set origin = 'elsewhere'")
    assert "; on hold, " in (await why(shard, TimerRef(held), late)).why


async def test_a_new_rule_is_not_explained_as_a_delay(dsn: str, shard: HolderClient) -> None:
    await add_timers(dsn, 1, "now() + interval '1 hour'", name="'n'")
    await reschedule_timer(shard.session, TimerRef(name="n"), NewRule("0 8 * * *", zone="Europe/Berlin"))

    assert (await why(shard, TimerRef(name="n"), NOON)).verdict == "NOT_YET_MADE"


# A hold that has ended
