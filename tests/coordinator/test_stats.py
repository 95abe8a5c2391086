"""Test the coordinator's report: the takeovers, with their reasons and durations."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from shardclock_server.cluster.families import REPORTED
from shardclock_server.coordinator.families import TAKEOVER_EDGES_S
from shardclock_server.coordinator.fleet import LOCAL
from shardclock_server.coordinator.lost_holders import DIED, LEFT, NEVER_STARTED, SILENT, UNREACHABLE
from shardclock_server.coordinator.reconciler import Reconciler
from shardclock_server.coordinator.settings import CoordinatorSettings
from shardclock_server.coordinator.stats import REASONS, CrewStats, report
from shardclock_server.metrics.families import REASON
from shardclock_server.metrics.report import MetricsReport, decode, encode
from shardclock_server.sql.cluster.holders import SHARD, EndedHolder, beat
from shardclock_server.sql.session import Session
from tests.support.exporting import ReportReceiver, listening, value_of
from tests.support.factories import query
from tests.support.fake_fleet import LEASE_S, FakeFleet, kept, reconciler_of, serving
from tests.support.roles import as_role
from tests.support.waiting import eventually


def said(*crews: CrewStats, leads: bool = True) -> MetricsReport:
    """Read the exporter's report of these counts."""
    return decode(encode(report("coordinator 1", fleet=LOCAL, leads=leads, crews=crews)), REPORTED)


@pytest.mark.parametrize(
    ("why", "reason"),
    [(DIED, "died"), (UNREACHABLE, "unreachable"), (SILENT, "silent"), (NEVER_STARTED, "never_started"),
     (LEFT, "other"), ("retired", "other"), ("RaySystemError", "other"), ("", "other")],
)  # fmt: skip
def test_a_takeover_is_counted_by_its_reason(why: str, reason: str) -> None:
    stats = CrewStats(SHARD)

    stats.count_takeovers([EndedHolder(7, held=3, silent_s=0.2)], {7: why})

    heard = said(stats)
    assert {one: value_of(heard, "takeovers", SHARD, one) for one in {*REASONS.values(), "other"}} == {
        one: float(one == reason) for one in {*REASONS.values(), "other"}
    }


def test_an_unknown_holder_is_also_counted() -> None:
    stats = CrewStats(SHARD)

    stats.count_takeovers([EndedHolder(7, 0, 1.0), EndedHolder(8, 0, 1.0)], {})

    assert stats.takeovers == {"other": 2}


def test_claims_of_dead_holders_are_released_and_the_durations_are_in_their_buckets() -> None:
    stats = CrewStats(SHARD)

    stats.count_takeovers([EndedHolder(1, 5, 0.1), EndedHolder(2, 6, 0.11), EndedHolder(3, 0, 61.0)], {})

    (histogram,) = said(stats).histograms
    assert histogram.counts == (1, 1, *[0] * (len(TAKEOVER_EDGES_S) - 2), 1)
    assert histogram.sum == pytest.approx(61.21)
    assert stats.released == 11


@pytest.mark.parametrize("away_s", [None, 0.0, 12.5])
def test_only_a_stand_by_reports_for_how_long_ray_has_been_away(away_s: float | None) -> None:
    heard = decode(encode(report("coordinator 1", fleet=LOCAL, leads=True, crews=[], ray_away_s=away_s)), REPORTED)

    told = [sample.value for sample in heard.samples if sample.name == "ray_away_seconds"]
    assert told == ([] if away_s is None else [away_s])


def test_a_suspension_is_counted_and_is_not_a_takeover() -> None:
    heard = said(CrewStats(SHARD, suspended=3))

    assert value_of(heard, "keepers_suspended", SHARD) == 3
    assert sum(sample.value for sample in heard.samples if sample.name == "takeovers") == 0


def test_every_reason_is_reported_as_zero_at_the_start_so_that_the_first_death_is_an_increase() -> None:
    heard = said(CrewStats(SHARD))

    reasons = {sample.labels[1] for sample in heard.samples if sample.name == "takeovers"}
    assert reasons == REASON.values - {"drained"}
    assert value_of(heard, "timers_released", "died") == 0
    assert sum(heard.histograms[0].counts) == 0


@pytest.mark.parametrize("leads", [False, True])
def test_only_a_leader_reports_that_it_leads(leads: bool) -> None:
    assert value_of(said(leads=leads), "coordinator_leads", LOCAL) == leads


# In the coordinator


@pytest.fixture
def receiver() -> Iterator[ReportReceiver]:
    with listening() as one:
        yield one


def reporting(dsn: str, fleet: FakeFleet, receiver: ReportReceiver, **more: float) -> Reconciler:
    settings = CoordinatorSettings(leader_lease_s=LEASE_S, metrics_socket=receiver.socket_path, **more)
    return Reconciler(settings, dsn=dsn, cluster_id="blue", incarnation=1, fleets=[fleet])


async def test_a_death_is_counted_with_the_claims_of_the_holder(session: Session, dsn: str) -> None:
    fleet = FakeFleet()
    reconciler = reconciler_of(dsn, fleet)
    first, _ = await serving(session, reconciler)
    await beat(session, first, held=42)
    fleet.there["shard-1"].dies.set()
    await asyncio.wait_for(reconciler._changed.wait(), 10)

    await reconciler.turn()
    assert await kept(session) == {12: 0}, "a death is acted on in the next turn"
    await reconciler.turn()

    stats = reconciler._crews[0].stats
    assert (stats.takeovers.total(), stats.released, sum(stats.silences.counts)) == (1, 42, 1)
    assert 0 < stats.silences.sum_s < 10
    assert stats.started == 3
    assert reconciler.leads


async def test_a_shard_that_drained_by_itself_is_not_a_takeover(session: Session, dsn: str) -> None:
    fleet = FakeFleet()
    reconciler = reconciler_of(dsn, fleet)
    await serving(session, reconciler)
    await query(dsn, "update shardclock.holders set ended_at = now(), ended_why = 'drained', part = null,"
                     " part_count = null where holder = 11")  # fmt: skip
    fleet.there["shard-1"].dies.set()
    await asyncio.wait_for(reconciler._changed.wait(), 10)

    await reconciler.turn()

    assert reconciler._crews[0].stats.takeovers.total() == 0


async def test_each_turn_is_reported_and_the_end_is_a_leave(
    session: Session, dsn: str, receiver: ReportReceiver
) -> None:
    reconciler = reporting(as_role(dsn, "shard"), FakeFleet(), receiver, reconcile_s=0.02)
    running = asyncio.create_task(reconciler.run())
    await eventually(
        lambda: len(receiver.received()) > 2 and value_of(receiver.reports[-1], "coordinator_leads", LOCAL) == 1
    )

    reconciler.stop()
    async with asyncio.timeout(20):
        await running

    assert {report.source for report in receiver.received()} == {"coordinator 0000000000000001"}
    assert {report.shard for report in receiver.reports} == {"none"}
    assert value_of(receiver.reports[-1], "keepers_started", SHARD) == 2
    assert [report.leaving for report in receiver.reports] == [*[False] * (len(receiver.reports) - 1), True]


async def test_a_failed_turn_is_also_reported(dsn: str, receiver: ReportReceiver) -> None:
    reconciler = reporting("postgresql://user@127.0.0.1:1/nowhere", FakeFleet(), receiver, reconcile_s=0.02)
    running = asyncio.create_task(reconciler.run())

    await eventually(lambda: len(receiver.received()) > 2)

    assert value_of(receiver.reports[-1], "coordinator_leads", LOCAL) == 0
    running.cancel()
    await asyncio.wait([running])
