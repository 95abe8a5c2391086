"""Prove that the lag of a timer counts from its due date, or from a client's later request."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from shardclock_server.shards.families import LAG_EDGES
from shardclock_server.shards.firing import firing_of
from shardclock_server.sql.claims.claim import Scan, claim_due
from shardclock_server.sql.claims.rows import Lags
from shardclock_server.sql.clients.verbs import TimerRef, pause_timer, reschedule_timer, resume_timer, run_timer
from shardclock_server.sql.firing.fire import fire_due
from shardclock_server.sql.metrics.measures import measure_cluster
from shardclock_server.sql.metrics.status import read_status
from shardclock_server.timers.duration import parse_duration
from tests.support.factories import HolderClient, add_holder, add_schedule, add_timers, query
from tests.support.roles import OPERATOR
from tests.support.sql_client import schedule

HOUR_S, DAY_S = 3_600.0, 86_400.0
QUICK_S = 20.0  # No single action of a test takes this long.
YEAR_AGO = "now() - interval '1 year'"


@pytest.fixture
async def shard(dsn: str) -> AsyncIterator[HolderClient]:
    await add_holder(dsn, 1)
    async with HolderClient(dsn, holder=1, role=OPERATOR) as hand:
        yield hand


async def fire(shard: HolderClient) -> list[Lags]:
    """Claim and fire the due timers as a shard does; return the lags."""
    taken = await claim_due(shard.session, 1, Scan("own", 0.0, 4_200), lease_s=10.0, lag_edges=LAG_EDGES)
    now = await shard.value("select now()")
    fired = await fire_due(shard.session, 1, [firing_of(it, now) for it in taken.claimed], lag_edges=LAG_EDGES)
    assert len(fired.timer_keys) == len(taken.claimed)
    return [*taken.lags, *fired.lags]


async def only(shard: HolderClient) -> tuple[str, int, float]:
    """Fire, and return the only reported lag: late or ahead, the number of timers, and their mean lag."""
    lags = await fire(shard)
    assert len({lag.asked for lag in lags}) == 1
    timers = sum(lag.timers for lag in lags)
    return lags[0].asked, timers, sum(lag.sum_s for lag in lags) / timers


# The timer was requested after its due date, so its lag does not include the delay before the request


async def test_a_backfill_is_late_from_the_moment_of_its_request(shard: HolderClient) -> None:
    for _ in range(3):
        await schedule(shard, due_date=await shard.value(f"select {YEAR_AGO}"))
    before, measured = await read_status(shard.session), await measure_cluster(shard.session)

    asked, timers, lag_s = await only(shard)

    assert (before.overdue, before.oldest_overdue_s < QUICK_S) == (3, True)
    assert 0 < measured.oldest_overdue_s < QUICK_S
    assert measured.oldest_due_s > 300 * DAY_S, "looks past fired rows must go back as far as that"
    assert (asked, timers) == ("late", 3)
    assert 0 < lag_s < QUICK_S
    after = await read_status(shard.session)
    assert after.lag_max_ms is not None
    assert after.lag_max_ms < QUICK_S * 1_000


async def test_a_backfill_that_no_shard_fires_is_overdue_since_its_request(shard: HolderClient) -> None:
    await add_timers(shard.dsn, 3, YEAR_AGO, created_at="now() - interval '10 minutes'")

    status, measured = await read_status(shard.session), await measure_cluster(shard.session)

    for found in (status, measured):
        assert 600 <= found.oldest_overdue_s < 600 + QUICK_S
    _, timers, lag_s = await only(shard)
    assert timers == 3
    assert lag_s == pytest.approx(600, abs=QUICK_S)


@pytest.mark.parametrize("to", ["the past", "now"])
async def test_a_timer_that_is_moved_to_the_past_is_late_from_the_moment_of_the_move(
    shard: HolderClient, to: str
) -> None:
    await add_timers(shard.dsn, 1, "now() + interval '1 hour'", created_at="now() - interval '1 year'", name="'it'")
    when = await shard.value(f"select {YEAR_AGO}") if to == "the past" else parse_duration("PT0S")
    assert await reschedule_timer(shard.session, TimerRef(name="it"), when) == "RESCHEDULED"

    asked, _, lag_s = await only(shard)

    assert asked == ("late" if to == "the past" else "ahead")
    assert lag_s < QUICK_S
    status = await read_status(shard.session)
    assert status.lag_max_ms is not None
    assert status.lag_max_ms < QUICK_S * 1_000


async def test_a_resumed_timer_is_late_from_the_moment_of_the_resume(shard: HolderClient) -> None:
    await add_timers(shard.dsn, 1, YEAR_AGO, name="'it'")
    await pause_timer(shard.session, TimerRef(name="it"))
    await resume_timer(shard.session, TimerRef(name="it"))
    assert (await read_status(shard.session)).oldest_overdue_s < QUICK_S

    asked, _, lag_s = await only(shard)

    assert asked == "late"
    assert lag_s < QUICK_S


async def test_occurrences_missed_in_a_pause_are_late_from_the_resumption(shard: HolderClient) -> None:
    # Given five occurrences that passed while their schedule was paused
    await add_schedule(shard.dsn, "R5/PT1H", "now() - interval '5 hours'", anchor="now() - interval '6 hours'",
        missed="'fire_all'", repetitions="5")  # fmt: skip
    await pause_timer(shard.session, TimerRef(name="beat"))
    await resume_timer(shard.session, TimerRef(name="beat"))

    lags = [await only(shard) for _ in range(5)]

    assert [(asked, lag_s < QUICK_S) for asked, _, lag_s in lags] == [("late", True)] * 5
    status = await read_status(shard.session)
    assert (status.fired, status.pending) == (5, 0)
    assert status.lag_max_ms is not None
    assert status.lag_max_ms < QUICK_S * 1_000


# The timer was requested before its due date, so its lag is the full delay


async def test_a_timer_left_by_an_outage_is_late_from_its_due_date(shard: HolderClient) -> None:
    await add_timers(shard.dsn, 2, "now() - interval '1 hour'", created_at="now() - interval '1 day'")
    status, measured = await read_status(shard.session), await measure_cluster(shard.session)

    asked, timers, lag_s = await only(shard)

    for found in (status, measured):
        assert found.oldest_overdue_s == pytest.approx(HOUR_S, abs=QUICK_S)
    assert (asked, timers) == ("ahead", 2)
    assert lag_s == pytest.approx(HOUR_S, abs=QUICK_S)
    assert (await read_status(shard.session)).lag_max_ms == pytest.approx(HOUR_S * 1_000, abs=QUICK_S * 1_000)


async def test_each_occurrence_left_by_an_outage_is_late_from_its_due_date(shard: HolderClient) -> None:
    """An occurrence's lag begins at its due date, even if the previous firing created the occurrence hours later."""
    await add_schedule(shard.dsn, "R3/PT1H", "now() - interval '3 hours'", anchor="now() - interval '4 hours'",
        missed="'fire_all'", repetitions="3", created_at="now() - interval '4 hours'")  # fmt: skip

    lags = [await only(shard) for _ in range(3)]

    assert [asked for asked, _, _ in lags] == ["ahead"] * 3
    assert [lag_s for _, _, lag_s in lags] == [pytest.approx(hours * HOUR_S, abs=QUICK_S) for hours in (3, 2, 1)]
    assert (await read_status(shard.session)).lag_max_ms == pytest.approx(3 * HOUR_S * 1_000, abs=QUICK_S * 1_000)


async def test_an_occurrence_after_a_pause_is_late_from_its_due_date(shard: HolderClient) -> None:
    await add_schedule(shard.dsn, "R/PT1H", "now() - interval '5 minutes'", anchor="now() - interval '65 minutes'")
    await pause_timer(shard.session, TimerRef(name="beat"))
    await resume_timer(shard.session, TimerRef(name="beat"))

    await fire(shard)

    (row,) = await query(shard.dsn, "select occurrence, changed_at from shardclock.timers")
    assert tuple(row) == (2, None)


async def test_a_timer_that_is_run_now_or_scheduled_for_now_is_not_late(shard: HolderClient) -> None:
    key = await schedule(shard, delay="PT1H")
    await run_timer(shard.session, TimerRef(key))
    await schedule(shard, delay="PT0S")
    await schedule(shard, due_date=await shard.value("select now() - interval '0.9 s'"))

    asked, timers, lag_s = await only(shard)

    assert (asked, timers) == ("ahead", 3)
    assert lag_s < QUICK_S


async def test_a_clock_that_was_set_back_makes_no_lag_negative(shard: HolderClient) -> None:
    await add_timers(shard.dsn, 1, "now() - interval '1 s'", created_at="now() + interval '1 hour'")

    assert (await measure_cluster(shard.session)).oldest_overdue_s == 0.0
    assert (await only(shard))[2] == 0.0
    assert (await read_status(shard.session)).lag_max_ms == 0.0


async def test_postgres_inlines_the_function_of_the_lag(each_dsn: str) -> None:
    rule = "shardclock.late_since(due_date, created_at, changed_at, occurrence)"

    rows = await query(each_dsn, f"explain (verbose) select {rule} from shardclock.timers")

    plan = " ".join(row[0] for row in rows)

    assert "GREATEST(due_date, changed_at, CASE WHEN (occurrence = 1)" in plan
    assert "late_since" not in plan
