"""Prove that the exporter's figures agree with the shards' work, and that reports delay no firing."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from typing import Any

import pytest

from shardclock_server.sql.claims.claim import claim_due
from tests.support.exporting import Exporting, Page, ReportReceiver, ask, exporting, listening, short_dir, value_of
from tests.support.factories import add_schedule, add_timers, query
from tests.support.shard_pool import ShardPool
from tests.support.waiting import eventually

REPORT_S = 0.05
QUIET = "now() - interval '700 milliseconds'"


@pytest.fixture(autouse=True)
def _report_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shardclock_server.keepers.loops.REPORT_S", REPORT_S)


@pytest.fixture
def node() -> Iterator[Exporting]:
    """Run this node's exporter, without the metrics from tables."""
    with exporting() as one:
        yield one


@pytest.fixture
def receiver() -> Iterator[ReportReceiver]:
    """Receive the shards' reports in place of an exporter."""
    with listening() as one:
        yield one


async def page_once(node: Exporting, holds: Any) -> Page:
    """Fetch the page until it fulfils a condition."""
    pages: list[Page] = []

    async def held() -> bool:
        pages.append(await ask(node.address))
        return bool(holds(pages[-1]))

    await eventually(held)
    return pages[-1]


def lags(page: Page, shard: str, timer_type: str = "USER") -> list[float]:
    found = page.numbers("fire_lag_seconds_bucket")
    return [number for (_, _, of, _, kind), number in found.items() if (of, kind) == (shard, timer_type)]


async def test_each_timer_is_counted_once_on_each_path_of_firing(pool: ShardPool, node: Exporting) -> None:
    # Given timers that the claim itself fires, leased timers that become due, and a schedule's occurrences.
    await add_timers(pool.dsn, 40, "now() - interval '2 minutes'", timer_type="'USER'")
    await add_timers(pool.dsn, 30, "now() + i * interval '10 ms'", timer_type="'BOUNDARY'")
    rule = {"anchor": "now() - interval '0.05 s'", "repetitions": "5", "missed": "'fire_all'"}
    await add_schedule(pool.dsn, "R5/PT0.05S", "now()", **rule)

    await pool.start(metrics_socket=node.socket_path)
    await pool.until_empty()

    fired = await pool.count_fired()
    page = await page_once(node, lambda page: page.numbers("timers_fired_total") == {("0",): fired})
    assert fired == 75
    counts = page.numbers("fire_lag_seconds_count")
    assert sum(counts.values()) == fired
    assert counts["ahead", "0", "log", "BOUNDARY"] == 30
    assert page.numbers("timers_claimed_total")["0",] <= 35, "an overdue timer is never claimed"


async def test_a_lag_is_in_the_same_bucket_as_in_the_log(pool: ShardPool, node: Exporting) -> None:
    await add_timers(pool.dsn, 20, "now() - interval '2 minutes'", timer_type="'USER'")
    await add_timers(pool.dsn, 10, "now() - interval '2 hours'", timer_type="'USER'")
    await add_timers(pool.dsn, 25, "now() + i * interval '10 ms'", timer_type="'BOUNDARY'")

    await pool.start(metrics_socket=node.socket_path)
    await pool.until_fired(55)

    page = await page_once(node, lambda page: page.numbers("timers_fired_total") == {("0",): 55})
    late = dict(zip([60, 300, 900, 3600, "beyond"], lags(page, "0")[-5:], strict=True))
    assert late == {60: 0, 300: 20, 900: 20, 3600: 20, "beyond": 30}
    # The lag is measured when the rows are deleted; the time in the records is a little later, because they are written
    # after the deletion.
    logged = await query(
        pool.dsn,
        "select count(*) filter (where recorded_at - due_date <= interval '50 ms'),"
        " sum(extract(epoch from recorded_at - due_date))::double precision"
        " from shardclock.command_log where timer_type = 'BOUNDARY'",
    )
    assert lags(page, "0", "BOUNDARY")[5] >= logged[0][0]
    assert page.numbers("fire_lag_seconds_sum")["ahead", "0", "log", "BOUNDARY"] == pytest.approx(
        logged[0][1], abs=0.25
    )


async def test_each_lag_of_a_backlog_is_counted_though_some_scans_are_not_measured(
    pool: ShardPool, node: Exporting
) -> None:
    await add_timers(pool.dsn, 6_000, "now() - interval '2 minutes'")
    await add_timers(pool.dsn, 200, "now() + i * interval '5 ms'")

    await pool.start(metrics_socket=node.socket_path, claim_batch=100, fire_batch=50)
    await pool.until_empty()

    page = await page_once(node, lambda page: page.numbers("timers_fired_total") == {("0",): 6_200})
    assert page.numbers("fire_lag_seconds_count") == {("ahead", "0", "log", "USER"): 6_200}
    assert lags(page, "0")[-5] == pytest.approx(200, abs=10), "within a minute"


async def test_two_shards_have_their_own_series(pool: ShardPool, node: Exporting) -> None:
    await add_timers(pool.dsn, 84, QUIET)

    for place in range(2):
        await pool.start(place, 2, metrics_socket=node.socket_path)

    page = await page_once(node, lambda page: sum(page.numbers("timers_fired_total").values()) == 84)
    assert page.numbers("timers_fired_total") == {("0",): 42, ("1",): 42}
    assert page.numbers("slots_owned") == {("0",): 420, ("1",): 420}
    assert page.number("exporter_sources") == 2


async def test_the_clock_is_not_reported_as_wrong_before_the_first_answer_of_postgres(
    pool: ShardPool, receiver: ReportReceiver
) -> None:
    await pool.start(metrics_socket=receiver.socket_path)
    await eventually(lambda: any(value_of(it, "clock_round_trip_seconds") > 0 for it in receiver.received()))

    offsets = [value_of(report, "clock_offset_seconds") for report in receiver.received()]
    assert max(map(abs, offsets)) < 1.0, "both clocks are this machine's"


async def test_a_drained_shard_reports_what_it_hands_back_and_its_series_end(pool: ShardPool, node: Exporting) -> None:
    await add_timers(pool.dsn, 10, "now() + interval '20 seconds'")
    ahead: dict[str, Any] = {"horizon_s": 30.0, "lease_s": 60.0, "metrics_socket": node.socket_path}
    stays, goes = await pool.start(0, 2, **ahead), await pool.start(1, 2, **ahead)
    await pool.until_held(goes, 1)
    held = len(goes)
    await page_once(node, lambda page: page.numbers("slots_owned") == {("0",): 420, ("1",): 420})

    await pool.drain(goes)

    page = await page_once(node, lambda page: page.number("exporter_sources") == 1)
    assert page.numbers("timers_released_total") == {("drained",): held}
    assert {labels[0] for labels in page.numbers("slots_owned")} == {"0"}
    assert stays in pool.work


async def test_a_holder_that_was_ended_sends_a_last_report(pool: ShardPool, receiver: ReportReceiver) -> None:
    shard = await pool.start(metrics_socket=receiver.socket_path, heartbeat_s=0.05)
    await eventually(lambda: len(receiver.received()) > 1)

    await pool.end(shard.holder)
    await eventually(pool.work[shard].done)

    assert [report.leaving for report in receiver.received()] == [*[False] * (len(receiver.received()) - 1), True]
    assert pool.work.pop(shard).exception() is not None


async def test_a_shard_that_gets_another_part_reports_its_counts_under_the_new_part(
    pool: ShardPool, receiver: ReportReceiver
) -> None:
    shard = await pool.start(0, 2, metrics_socket=receiver.socket_path, heartbeat_s=0.05)
    await eventually(lambda: any(report.shard == "0" for report in receiver.received()))

    await pool.assign({shard: (4, 5)})

    await eventually(lambda: receiver.received()[-1].shard == "4")
    assert value_of(receiver.reports[-1], "slots_owned") == 168
    assert receiver.reports[0].shard == "none", "before its first sign of life it keeps nothing"


async def test_failed_turns_are_counted(
    pool: ShardPool, receiver: ReportReceiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    shard = await pool.start(metrics_socket=receiver.socket_path, retry_max_s=0.05)
    await eventually(lambda: len(receiver.received()) > 1)
    fails = 3

    async def fail_a_little(*arguments: Any, **more: Any) -> Any:
        nonlocal fails
        fails -= 1
        if fails >= 0:
            raise RuntimeError("broken")
        return await claim_due(*arguments, **more)

    monkeypatch.setattr("shardclock_server.shards.shard.claim_due", fail_a_little)

    await eventually(lambda: value_of(receiver.received()[-1], "turn_failures", "claims") == 3)
    assert value_of(receiver.reports[-1], "turn_failures", "fires") == 0
    assert shard.stats.failures["claims"] == 3


# Without an exporter


async def test_a_shard_fires_without_an_exporter(pool: ShardPool) -> None:
    with short_dir() as place:
        nowhere = str(place / "absent.sock")
        keys = await add_timers(pool.dsn, 100, "now() + i * interval '5 ms'")
        shard = await pool.start(metrics_socket=nowhere)

        await pool.until_fired(100)

    assert sorted(row["timer_key"] for row in await pool.fired()) == keys
    assert shard.stats.failures.total() == 0


async def test_an_exporter_that_starts_later_gets_all_counts(pool: ShardPool, dsn: str) -> None:
    with short_dir() as place:
        path = place / "late.sock"
        await add_timers(dsn, 50, QUIET)
        await pool.start(metrics_socket=str(path))
        await pool.until_fired(50)

        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as late:
            late.bind(str(path))
            late.setblocking(False)
            receiver = ReportReceiver(str(path), late)
            await eventually(lambda: bool(receiver.received()))

    assert value_of(receiver.reports[0], "timers_fired") == 50
