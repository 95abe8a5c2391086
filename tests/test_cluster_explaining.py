"""Whoever asks why a timer did or didn't fire hears what the records say, about the moment that was asked about."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta

import pytest

from cluster.explaining import Explanation, explain, gather
from sql.pending import Drawn, draw_keys, schedule_timers
from sql.verbs import NewRule, Which, cancel_timer, pause_timer, reschedule_timer, resume_timer
from tests.store import Hand, add_holder, add_schedule, add_timers, query
from timers.model import NewTimer

MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


@pytest.fixture
async def shard(dsn: str) -> AsyncIterator[Hand]:
    """Lend a shard that a test moves by hand."""
    await add_holder(dsn, 0xBEEF)
    async with Hand(dsn, holder=0xBEEF) as hand:
        yield hand


async def why(shard: Hand, which: Which, moment: datetime | None = None) -> Explanation:
    """Ask, about now if not told otherwise."""
    now: datetime = await shard.value("select clock_timestamp()")
    moment = moment or now
    return explain(await gather(shard.session, which, moment, now), moment)


async def test_a_timer_that_fired_tells_when_how_late_and_by_whom(dsn: str, shard: Hand) -> None:
    (key,) = await add_timers(dsn, 1, "now()")
    await shard.take(fuse=True)

    answer = await why(shard, Which(key))

    assert answer.verdict == "FIRED"
    assert answer.why.endswith("later, by holder 000000000000beef (test, pid 1 on test)")
    assert answer.record is not None
    assert answer.record.timer_key == key


async def test_a_firing_that_came_late_for_want_of_a_shard_says_so(dsn: str, shard: Hand) -> None:
    (key,) = await add_timers(dsn, 1, "now() - interval '1 hour'", created_at="now() - interval '2 hours'")
    await shard.take(fuse=True)

    assert (await why(shard, Which(key))).why.endswith("no shard was running when it fell due")


async def test_a_timer_with_a_date_in_the_past_says_when_it_was_made(dsn: str, shard: Hand) -> None:
    (key,) = await add_timers(dsn, 1, "now() - interval '1 hour'")
    await shard.take(fuse=True)

    assert "with a date in the past" in (await why(shard, Which(key))).why


async def test_before_it_was_made_there_was_nothing(dsn: str, shard: Hand) -> None:
    (key,) = await add_timers(dsn, 1, "now() + interval '1 hour'")

    assert (await why(shard, Which(key), NOON)).verdict == "NOT_YET_MADE"
    assert (await why(shard, Which(key + 1))).verdict == "NONE"


async def test_a_timer_that_is_not_due_names_its_date_and_where_it_was_moved_from(dsn: str, shard: Hand) -> None:
    await add_timers(dsn, 1, "now() + interval '1 hour'", name="'n'")
    which = Which(name="n")
    assert (await why(shard, which)).why.startswith("nothing was due then: the next date is ")

    await reschedule_timer(shard.session, which, datetime(2031, 1, 1, tzinfo=UTC))

    answer = await why(shard, which, datetime(2030, 1, 1, tzinfo=UTC))
    assert (answer.verdict, "the next date is 2031-01-01 00:00:00.000Z; at " in answer.why) == ("NOT_DUE", True)


async def test_a_cancelled_timer_names_who_and_why_until_the_name_is_used_again(dsn: str, shard: Hand) -> None:
    which = Which(name="n")
    await add_timers(dsn, 1, "now() + interval '1 hour'", name="'n'")
    await cancel_timer(shard.session, which, reason="paid")

    answer = await why(shard, which)
    assert answer.verdict == "CANCELED"
    assert "by postgres (paid)" in answer.why

    await add_timers(dsn, 1, "now() + interval '1 hour'", name="'n'")
    assert (await why(shard, which)).verdict == "NOT_DUE"


async def test_a_paused_timer_says_so_and_a_resumed_one_why_it_came_late(dsn: str, shard: Hand) -> None:
    which = Which(name="n")
    await add_timers(dsn, 1, "now() - interval '1 minute'", name="'n'", created_at="now() - interval '1 hour'")
    await pause_timer(shard.session, which, reason="holiday")
    paused = await why(shard, which)
    await resume_timer(shard.session, which)
    await shard.take(fuse=True)
    fired = await why(shard, which)

    assert (paused.verdict, "by postgres (holiday)" in paused.why) == ("PAUSED", True)
    assert (fired.verdict, ": it was paused until " in fired.why) == ("FIRED", True)


async def test_a_schedule_that_nobody_can_read_says_why(dsn: str, shard: Hand) -> None:
    await shard.value("select shardclock.schedule_timer(schedule => '0 0 30 2 *', name => 'n')")
    await shard.take()
    (key,) = (row[0] for row in await query(dsn, "select timer_key from shardclock.timers"))
    await shard.session.rows("set_aside", shard.holder, key, "it never occurs")

    answer = await why(shard, Which(name="n"))

    assert (answer.verdict, answer.why.endswith("it never occurs")) == ("REFUSED", True)


async def test_an_overdue_timer_says_what_it_waits_for(dsn: str, shard: Hand) -> None:
    (old, claimed) = await add_timers(dsn, 2, "now() - i * interval '1 hour'", created_at="now() - interval '9 hours'")
    assert "no shard was running" in (await why(shard, Which(old))).why

    await query(dsn, "update shardclock.holders set started_at = now() - interval '1 day'")
    assert "waits for its turn in the ramp" in (await why(shard, Which(old))).why
    await query(dsn, "update shardclock.timers set claimed_by = 7, claimed_until = now() where timer_key = $1", claimed)
    assert "holder 0000000000000007 has claimed it" in (await why(shard, Which(claimed))).why


@pytest.mark.parametrize(
    ("missed", "at_its_date", "in_the_gap"),
    [("fire_once", "FIRED", "SKIPPED"), ("skip", "SKIPPED", "SKIPPED"), ("fire_all", "FIRED", "FIRED")],
)
async def test_a_moment_in_a_gap_is_told_by_the_policy(
    dsn: str, shard: Hand, missed: str, at_its_date: str, in_the_gap: str
) -> None:
    # Given an hourly schedule that nobody fired for ten hours
    timer = NewTimer.from_fields({"schedule": "R/PT1H", "name": "n", "missed": missed})
    drawn = await draw_keys(shard.session, 1)
    await schedule_timers(shard.session, Drawn(drawn.keys, NOON), [timer])
    await query(dsn, "update shardclock.timers set created_at = $1", NOON)
    shard.now = NOON + 10 * HOUR + MINUTE * 30
    for _ in range(12):
        await shard.fire((await shard.take()).claimed)

    first = await why(shard, Which(name="n"), NOON + HOUR)
    later = await why(shard, Which(name="n"), NOON + 5 * HOUR + MINUTE)
    assert (first.verdict, later.verdict) == (at_its_date, in_the_gap)
    if in_the_gap == "SKIPPED":
        assert f"skipped under {missed}" in later.why


async def test_a_schedule_s_occurrence_is_told_by_its_number(dsn: str, shard: Hand) -> None:
    await add_schedule(dsn, "R/PT1H", name="'n'", created_at="now() - interval '2 hours'")
    await shard.fire((await shard.take()).claimed)

    answer = await why(shard, Which(name="n"))

    assert answer.why.startswith("occurrence 1, due at ")


async def test_a_new_rule_is_no_reason_to_be_late(dsn: str, shard: Hand) -> None:
    await add_timers(dsn, 1, "now() + interval '1 hour'", name="'n'")
    await reschedule_timer(shard.session, Which(name="n"), NewRule("0 8 * * *", zone="Europe/Berlin"))

    assert (await why(shard, Which(name="n"), NOON)).verdict == "NOT_YET_MADE"
