"""With a policy, the coordinator scales before the load comes, obeys an operator, and withdraws requests to Ray."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from shardclock_server.coordinator.fleet import FleetUnavailable
from shardclock_server.coordinator.scaling import Scaling
from shardclock_server.coordinator.settings import CoordinatorSettings
from shardclock_server.sql.cluster.holders import SHARD
from shardclock_server.sql.cluster.leadership import Leadership, lead, read_policy, scale, set_policy
from shardclock_server.sql.session import Session, StoreUnavailable
from tests.support.factories import add_timers, query
from tests.support.fake_fleet import FakeFleet, reconciler_of
from tests.support.roles import as_role
from tests.support.waiting import eventually

ME = 1
# With these short times, almost every turn computes the forecast again, and soon forgets an earlier result.
QUICK: dict[str, float] = {"forecast_s": 0.01, "give_back_s": 600.0, "shards_ahead_s": 60.0, "nodes_ahead_s": 300.0}


class ScaledCluster:
    """One coordinator's scaling on a real database, and its requests to Ray."""

    def __init__(self, dsn: str, session: Session, **tuning: float) -> None:
        self.dsn = dsn
        self.session = session
        self.asked: list[int] = []
        self.refuses = False
        settings = CoordinatorSettings(**{**QUICK, **tuning})
        self.scaling = Scaling(SHARD, settings, session, self._ask)

    async def _ask(self, shards: int) -> None:
        if self.refuses:
            raise FleetUnavailable("gone")
        self.asked.append(shards)

    async def turn(self) -> int:
        leadership = await lead(self.session, ME, cluster_id="blue", lease_s=60.0, fresh=False)
        assert leadership.leads
        return await self.scaling.turn(leadership, ME)

    async def next_reading(self) -> int:
        """Run turns until the coordinator has used a new reading; return the wanted number of shards."""
        seen = self.scaling._read_at_s
        await eventually(self._turned_since(seen))
        return await self.wanted()

    async def until(self, wanted: int) -> None:
        """Run turns until the coordinator wants this number of shards."""

        async def held() -> bool:
            await self.turn()
            return await self.wanted() == wanted

        await eventually(held)

    async def wanted(self) -> int:
        return (await read_policy(self.session, SHARD)).wanted

    def _turned_since(self, seen: float) -> Callable[[], Awaitable[bool]]:
        readings = 0

        async def held() -> bool:
            nonlocal readings, seen
            await self.turn()
            readings += self.scaling._read_at_s > seen
            seen = self.scaling._read_at_s
            return readings > 2  # The first forecast was started before, and the second forecast has ended.

        return held


@asynccontextmanager
async def cluster_of(dsn: str, **tuning: float) -> AsyncIterator[ScaledCluster]:
    async with Session(as_role(dsn, "shard"), application="test") as session:
        await lead(session, ME, cluster_id="blue", lease_s=60.0, fresh=True)
        cluster = ScaledCluster(dsn, session, **tuning)
        try:
            yield cluster
        finally:
            await cluster.scaling.close()


@pytest.fixture
async def cluster(dsn: str) -> AsyncIterator[ScaledCluster]:
    async with cluster_of(dsn) as one:
        yield one


async def follow(cluster: ScaledCluster, least: int, most: int, target_per_s: int = 10) -> None:
    await set_policy(cluster.session, SHARD, wanted_min=least, wanted_max=most, target_per_s=target_per_s)


async def announce(cluster: ScaledCluster, timers: int, ahead_s: float) -> None:
    """Schedule `count` timers for one moment."""
    await add_timers(cluster.dsn, timers, f"now() + interval '{ahead_s} s'")


async def test_without_a_policy_no_load_changes_the_wanted_number(cluster: ScaledCluster) -> None:
    await scale(cluster.session, SHARD, 3)
    await announce(cluster, 5_000, 20)

    assert await cluster.next_reading() == 3
    assert cluster.asked == [0], "an earlier incarnation may have asked for nodes under a policy"


async def test_the_shards_for_a_spike_are_started_before_the_spike(cluster: ScaledCluster) -> None:
    await follow(cluster, 1, 20)
    await announce(cluster, 700, 25)

    await cluster.until(7)


async def test_a_distant_spike_causes_requests_for_nodes_and_a_near_spike_causes_shards(
    cluster: ScaledCluster,
) -> None:
    await follow(cluster, 1, 20)
    await announce(cluster, 500, 200)

    assert await cluster.next_reading() == 2, "the number before"
    assert cluster.asked[-1] == 5

    await query(cluster.dsn, "update shardclock.timers set due_date = due_date - interval '160 s'")
    await cluster.until(5)
    assert cluster.asked[-1] == 5


async def test_each_reading_includes_a_backlog_until_the_backlog_has_fired(cluster: ScaledCluster) -> None:
    await announce(cluster, 700, -3_600)
    counts = [await cluster.scaling._count_overdue() for _ in range(3)]
    await query(cluster.dsn, "delete from shardclock.timers")
    counts += [await cluster.scaling._count_overdue() for _ in range(2)]

    assert counts == [700, 700, 700, 0, 0]


@pytest.mark.parametrize(("least", "most", "then"), [(1, 4, 4), (8, 20, 8), (3, 3, 3)])
async def test_the_bounds_of_the_policy_hold_under_any_load(
    cluster: ScaledCluster, least: int, most: int, then: int
) -> None:
    await follow(cluster, least, most)
    await announce(cluster, 700, 25)

    await cluster.until(then)
    assert await cluster.next_reading() == then
    assert least <= cluster.asked[-1] <= most


async def test_overdue_timers_also_increase_the_wanted_number_of_shards(cluster: ScaledCluster) -> None:
    await follow(cluster, 1, 20)
    await add_timers(cluster.dsn, 900, "now() - interval '1 minute'")

    await cluster.until(9)


async def test_recent_firings_count_as_load(cluster: ScaledCluster) -> None:
    # No forecast includes timers that are due immediately. Only the log has records of these timers.
    await follow(cluster, 1, 20)
    await cluster.next_reading()

    async def fires() -> bool:
        await query(
            cluster.dsn, "select setval('shardclock.position_seq', last_value + 2000) from shardclock.position_seq"
        )
        await cluster.turn()
        return await cluster.wanted() == 20

    await eventually(fires)


async def test_shards_that_are_no_longer_needed_are_kept_for_a_while_and_then_retired(dsn: str) -> None:
    async with cluster_of(dsn, give_back_s=0.5) as cluster:
        await follow(cluster, 1, 20)
        await announce(cluster, 700, 25)
        await cluster.until(7)
        await query(dsn, "delete from shardclock.timers")
        began = asyncio.get_running_loop().time()

        assert await cluster.next_reading() == 7
        await cluster.until(1)

        assert asyncio.get_running_loop().time() >= began + 0.4
        assert cluster.asked[-1] == 1, "the nodes are given back with the shards"


async def test_surplus_shards_from_before_a_policy_end_only_after_a_while(cluster: ScaledCluster) -> None:
    await scale(cluster.session, SHARD, 9)
    await follow(cluster, 1, 20)

    assert await cluster.next_reading() == 9
    assert cluster.asked[-1] == 9


async def test_the_removal_of_a_policy_withdraws_the_request_for_nodes(cluster: ScaledCluster) -> None:
    await follow(cluster, 1, 20)
    await announce(cluster, 700, 25)
    await cluster.until(7)
    assert cluster.asked[-1] == 7

    await scale(cluster.session, SHARD, 2)

    assert await cluster.next_reading() == 2
    assert cluster.asked[-1] == 0
    asked = len(cluster.asked)
    await cluster.next_reading()
    assert len(cluster.asked) == asked, "once is enough"


async def test_a_new_policy_does_not_use_the_needs_of_an_old_policy(cluster: ScaledCluster) -> None:
    await follow(cluster, 1, 20)
    await announce(cluster, 700, 25)
    await cluster.until(7)
    await query(cluster.dsn, "delete from shardclock.timers")
    await scale(cluster.session, SHARD, 2)
    await cluster.next_reading()

    await follow(cluster, 1, 20)

    assert await cluster.next_reading() == 2


async def test_a_new_leader_keeps_the_existing_shards_for_a_while(cluster: ScaledCluster) -> None:
    await follow(cluster, 1, 20)
    await cluster.next_reading()
    await lead(cluster.session, 2, cluster_id="blue", lease_s=60.0, fresh=True)
    await query(cluster.dsn, "update shardclock.scale set wanted = 12")
    await lead(cluster.session, ME, cluster_id="blue", lease_s=60.0, fresh=True)

    assert await cluster.next_reading() == 12, "the other leader's number"


async def test_an_operators_scaling_between_a_reading_and_its_use_has_precedence(cluster: ScaledCluster) -> None:
    await follow(cluster, 1, 20)
    await announce(cluster, 700, 25)
    await cluster.turn()
    reading = cluster.scaling._reading
    assert reading is not None
    await asyncio.wait([reading])
    leadership = await lead(cluster.session, ME, cluster_id="blue", lease_s=60.0, fresh=False)
    await scale(cluster.session, SHARD, 4)

    wanted = await cluster.scaling.turn(leadership, ME)

    assert wanted == 2, "the turn uses the value from its begin; the next turn reads the operator's value"
    assert await cluster.wanted() == 4
    assert await cluster.next_reading() == 4


async def test_a_failed_reading_changes_nothing_and_the_next_reading_is_used(
    cluster: ScaledCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    await follow(cluster, 1, 20)
    await announce(cluster, 700, 25)
    fails = 3
    rows = cluster.scaling._session_of_readings.rows

    async def unavailable(name: str, /, **values: Any) -> Any:
        nonlocal fails
        fails -= 1
        if fails >= 0:
            raise StoreUnavailable("gone")
        return await rows(name, **values)

    monkeypatch.setattr(cluster.scaling._session_of_readings, "rows", unavailable)

    await cluster.until(7)


async def test_a_turn_does_not_wait_for_a_reading_of_the_demand(
    cluster: ScaledCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    never = asyncio.Event()

    async def hang(*_: Any, **__: Any) -> Any:
        await never.wait()

    monkeypatch.setattr(cluster.scaling._session_of_readings, "rows", hang)
    await follow(cluster, 1, 20)

    async with asyncio.timeout(5):
        assert [await cluster.turn() for _ in range(3)] == [2, 2, 2]


async def test_shards_are_scaled_while_ray_does_not_answer(cluster: ScaledCluster) -> None:
    cluster.refuses = True
    await follow(cluster, 1, 20)
    await announce(cluster, 700, 25)

    await cluster.until(7)
    cluster.refuses = False
    await cluster.next_reading()

    assert cluster.asked == [7], "the request is repeated until Ray answers"


async def test_requests_for_nodes_are_repeated(cluster: ScaledCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shardclock_server.coordinator.scaling.ASK_AGAIN_S", 0.0)
    await follow(cluster, 3, 3)

    await eventually(lambda: _turn_until(cluster, 3))

    assert set(cluster.asked) == {3}


async def _turn_until(cluster: ScaledCluster, asked: int) -> bool:
    await cluster.turn()
    return len(cluster.asked) >= asked


# In the coordinator


async def test_a_cluster_that_loses_the_lead_withdraws_its_requests_for_nodes(session: Session, dsn: str) -> None:
    fleet = FakeFleet()
    await set_policy(session, SHARD, wanted_min=3, wanted_max=5, target_per_s=None)
    reconciler = reconciler_of(dsn, fleet, forecast_s=0.01)

    async def has_asked(shards: int) -> bool:
        await reconciler.turn()
        return fleet.asked_for[-1:] == [shards]

    await eventually(lambda: has_asked(3))
    await query(dsn, "update shardclock.leadership set lease_until = clock_timestamp()")
    other: Leadership = await lead(session, 2, cluster_id="green", lease_s=60.0, fresh=True)

    assert other.leads
    assert await has_asked(0)
    await reconciler._scaling.close()


async def test_a_cluster_that_stops_withdraws_its_requests_for_nodes(session: Session, dsn: str) -> None:
    fleet = FakeFleet()
    await set_policy(session, SHARD, wanted_min=1, wanted_max=5, target_per_s=None)
    reconciler = reconciler_of(dsn, fleet, forecast_s=0.01, reconcile_s=0.02)
    running = asyncio.create_task(reconciler.run())
    await eventually(lambda: fleet.asked_for == [2])

    reconciler.stop()
    async with asyncio.timeout(20):
        await running

    assert fleet.asked_for == [2, 0]
