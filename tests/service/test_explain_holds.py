"""An ended hold or pause is the explanation of a late firing."""

from __future__ import annotations

import json
import re
from datetime import timedelta

import pytest

from shardclock_server.service.explain import explain
from shardclock_server.service.timeline import read_timeline, show_moment
from shardclock_server.sql.clients.history import records_of
from shardclock_server.sql.clients.verbs import TimerRef, pause_timer, resume_timer
from shardclock_server.sql.cluster.identity import hold, release
from shardclock_server.sql.metrics.status import read_clock
from shardclock_server.timers.schedule import MissedChoice
from tests.support.explaining import why
from tests.support.factories import HolderClient, add_schedule, add_timers, query

HOUR = timedelta(hours=1)


@pytest.mark.parametrize("missed", ["fire_once", "skip"])
async def test_a_hold_is_explained_after_its_release(shard: HolderClient, missed: str) -> None:
    # Given a timer and a schedule that became due during a hold that was released, and an older hold
    await hold(shard.session, "another reason")
    await release(shard.session, "")
    (key,) = await add_timers(shard.dsn, 1, "now() - interval '30 minutes'", created_at="now() - interval '2 hours'")
    await add_schedule(shard.dsn, "R/PT1H", "now() - interval '50 minutes'", missed=f"'{missed}'",
        created_at="now() - interval '2 hours'", anchor="now() - interval '50 minutes'")  # fmt: skip
    await hold(shard.session, "prices are wrong")
    await query(
        shard.dsn,
        "update shardclock.identity set holds = jsonb_set(jsonb_set(holds, '{-1,began_at}',"
        " to_jsonb(now() - interval '1 hour')), '{0,ended_at}', to_jsonb(now() - interval '80 minutes'))",
    )
    assert "prices are wrong" in (await why(shard, TimerRef(key))).why, "while it continues"
    await release(shard.session, "")

    # When the timers fire
    await shard.fire((await shard.take(fire_overdue=True)).claimed)

    # Then each explanation names the hold's reason, its beginning and end, and the delay after the release.
    told = (await why(shard, TimerRef(key))).why
    assert re.search(
        r": on hold from .+Z until .+Z, an operator said: prices are wrong, and fired \d+\.\d m?s after that", told
    )
    assert "prices are wrong" in (await why(shard, TimerRef(name="beat"))).why
    assert "another reason" not in told


async def test_a_timer_that_fired_on_time_before_a_hold_is_not_explained_by_the_hold(shard: HolderClient) -> None:
    (key,) = await add_timers(shard.dsn, 1, "now()")
    await shard.take(fire_overdue=True)
    await hold(shard.session, "prices are wrong")
    await release(shard.session, "")

    assert "prices" not in (await why(shard, TimerRef(key))).why


async def test_a_pause_is_explained_with_its_reason_after_its_end(shard: HolderClient) -> None:
    (key,) = await add_timers(shard.dsn, 1, "now() - interval '30 minutes'", created_at="now() - interval '2 hours'")
    await pause_timer(shard.session, TimerRef(key), reason="month-end close")
    await resume_timer(shard.session, TimerRef(key))
    await shard.take(fire_overdue=True)

    assert re.search(
        r"the timer was paused from .+Z until .+Z by test_operator \(month-end close\), and fired",
        (await why(shard, TimerRef(key))).why,
    )


@pytest.mark.parametrize("missed", ["skip", "fire_once", "fire_all"])
async def test_occurrences_that_were_missed_during_a_pause_are_explained_by_the_pause(
    shard: HolderClient, missed: str
) -> None:
    # Given an hourly schedule that was paused twice, and a hold that was released during the second pause
    which, since = TimerRef(name="beat"), "now() - interval '150 minutes'"
    await add_schedule(shard.dsn, "R/PT1H", since, created_at="now() - interval '9 hours'", anchor=since)
    await pause_timer(shard.session, which, reason="an earlier pause")
    await resume_timer(shard.session, which)
    await pause_timer(shard.session, which, reason="month-end")
    await pause_timer(shard.session, which, reason="month-end close", until=await read_clock(shard.session) + HOUR)
    await hold(shard.session, "prices are wrong")
    await release(shard.session, "")
    begun = [it.recorded_at for it in await records_of(shard.session, which) if it.intent == "PAUSED"][1]

    # When the resume decides about the missed occurrences
    resumed_at = await read_clock(shard.session)
    await resume_timer(shard.session, which, missed=MissedChoice(missed))
    for _ in range(3):
        await shard.fire((await shard.take(fire_overdue=True)).claimed)

    # Then each explanation names only the second pause: its begin, end, author and reason.
    now = await why(shard, which)
    records = await records_of(shard.session, which)
    skips = [it for it in records if it.intent == "SKIPPED"]
    assert (now.verdict, len(skips)) == {"skip": ("SKIPPED", 1), "fire_once": ("FIRED", 1), "fire_all": ("FIRED", 0)}[
        missed
    ]
    at_the_skip = await why(shard, which, max(resumed_at, skips[0].recorded_at) if skips else None)
    for told in (now.why, at_the_skip.why):
        pause = f": the timer was paused from {show_moment(begun)} until "
        assert pause in told, told
        assert "by test_operator (month-end close)" in told
        assert ("prices are wrong" in told, "an earlier pause" in told) == (False, False)


async def test_the_last_fifty_holds_are_kept_and_a_new_reason_ends_the_previous_hold(shard: HolderClient) -> None:
    for number in range(60):
        await hold(shard.session, f"reason {number}")
    await release(shard.session, "")

    (row,) = await query(shard.dsn, "select holds from shardclock.identity")

    holds = json.loads(row["holds"])
    assert [it["why"] for it in holds] == [f"reason {number}" for number in range(10, 60)]
    assert all(it["began_at"] <= it["ended_at"] for it in holds)


async def test_a_tenant_reads_no_reason_of_an_operators_hold(shard: HolderClient) -> None:
    (key,) = await add_timers(shard.dsn, 1, "now() - interval '30 minutes'", created_at="now() - interval '2 hours'")
    await hold(shard.session, "prices are wrong")
    now = await read_clock(shard.session)
    which = TimerRef(key)

    timeline = await read_timeline(shard.session, which, now, now, identity="", silent_s=5.0)

    assert "prices are wrong" in explain(timeline, now).why
    told = explain(timeline.without_reasons(), now).why
    assert ("prices are wrong" in told, "on hold" in told) == (False, True)
