"""On a real Ray, every timer fires exactly once and in time while processes are killed, frozen, added and scaled."""

from __future__ import annotations

import asyncio
import os
import signal
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, closing
from functools import partial

import psutil
import pytest

from shardclock_server.demo.verdict import Kill
from shardclock_server.sql.cluster.holders import SHARD, Holder
from shardclock_server.sql.cluster.leadership import scale
from shardclock_server.sql.session import Session
from shardclock_server.timers.model import NewTimer
from tests.support.factories import holders_of, query, value
from tests.support.rays import RayOfNodes
from tests.support.roles import as_role
from tests.support.steady_load import SteadyLoad
from tests.support.waiting import eventually

pytestmark = pytest.mark.ray

# 40 timers and a repeat of three each tenth of a second: about 400 firings a second.
BATCH = [NewTimer.from_fields({"delay": f"PT{0.1 + 0.03 * i:.2f}S"}) for i in range(40)]
BATCH += [NewTimer.from_fields({"schedule": "R3/PT0.4S"})]
TERM = "select term from shardclock.leadership"
PATIENCE_S = 15.0  # the time of a lease and of a sweep
TAKEOVER_S = 2.0  # the promised limit of a takeover
DEAD_NODE_S = 60.0  # Ray may restart an actor on a killed node, and the actor then waits until Ray gives the node up
LATE = "interval '0.3 s'"


@pytest.fixture(scope="module")
def first_ray() -> Iterator[RayOfNodes]:
    with closing(RayOfNodes()) as rays:
        yield rays


@pytest.fixture(scope="module")
def second_ray() -> Iterator[RayOfNodes]:
    with closing(RayOfNodes()) as rays:
        yield rays


@pytest.fixture
async def rays(first_ray: RayOfNodes) -> AsyncIterator[RayOfNodes]:
    yield first_ray
    await first_ray.clear()


@pytest.fixture
async def other_rays(second_ray: RayOfNodes) -> AsyncIterator[RayOfNodes]:
    yield second_ray
    await second_ray.clear()


@asynccontextmanager
async def exactly_once(dsn: str) -> AsyncIterator[SteadyLoad]:
    """Schedule timers during a block, and assert that each fires exactly once, never early."""
    load = SteadyLoad(dsn, lambda _: BATCH)
    flow = asyncio.create_task(load.flow())
    await eventually(lambda: fired(dsn, at_least=100))
    try:
        yield load
        assert not flow.done(), flow.exception()
    finally:
        flow.cancel()
        await asyncio.wait([flow])
    verdict = await load.verdict(patience_s=PATIENCE_S)
    load.takeover_s = verdict.takeover_s or 0.0
    print(verdict)  # noqa: T201 - shown when the test fails
    assert verdict.holds, verdict


async def fired(dsn: str, *, at_least: int) -> bool:
    return bool(await value(dsn, "select count(*) from shardclock.command_log") >= at_least)


async def serving(dsn: str, count: int) -> bool:
    """Return whether exactly `count` holders have slots, each holder another part; other holders may have no slots."""
    found = [(holder.part, holder.part_count) for holder in await holders_of(dsn) if holder.part is not None]
    return found == [(shard, count) for shard in range(count)]


async def spreads(dsn: str, shards: dict[str, int]) -> bool:
    """Return whether each node has the given number of holders with slots."""
    return Counter(holder.node_id for holder in await holders_of(dsn) if holder.part is not None) == shards


async def served_by(dsn: str, cluster_id: str) -> bool:
    """Return whether at least one holder has slots, and all such holders belong to this cluster."""
    return {holder.cluster_id for holder in await holders_of(dsn) if holder.part is not None} == {cluster_id}


async def ended(dsn: str, *, node_id: str | None = None) -> list[str]:
    rows = await query(dsn, "select node_id, ended_why from shardclock.holders where ended_at is not null")
    return [row["ended_why"] for row in rows if node_id in (None, row["node_id"])]


async def has_ended(dsn: str, holder: Holder, why: str) -> bool:
    text = "select ended_why is not distinct from $2 from shardclock.holders where holder = $1"
    return bool(await value(dsn, text, holder.holder, why))


async def term_is(dsn: str, term: int) -> bool:
    return bool(await value(dsn, TERM) == term)


async def counts_actors(rays: RayOfNodes, count: int) -> bool:
    return await rays.shard_actors() == count


async def until_serving(dsn: str, count: int, *, within_s: float = 20.0) -> list[Holder]:
    await eventually(lambda: serving(dsn, count), within_s=within_s)
    return await holders_of(dsn)


async def want(dsn: str, count: int) -> None:
    async with Session(as_role(dsn, "shard"), application="test") as session:
        await scale(session, SHARD, count)


async def kill_shard(dsn: str, victim: Holder) -> Kill:
    return await strike(dsn, victim, signal.SIGKILL)


async def strike(dsn: str, victim: Holder, sign: signal.Signals) -> Kill:
    """Send a signal to a shard's process; return the moment on Postgres's clock, and the shard's part of the slots."""
    assert victim.part is not None
    assert victim.part_count is not None
    kill = Kill(await value(dsn, "select clock_timestamp()"), victim.part, victim.part_count)
    os.kill(victim.pid, sign)
    return kill


async def caught_up(dsn: str) -> bool:
    """Return whether no timer has been overdue for long."""
    return not await value(dsn, f"select exists (select from shardclock.timers where due_date < now() - {LATE})")


async def test_a_killed_shard_is_taken_over_and_replaced_within_two_seconds(rays: RayOfNodes, dsn: str) -> None:
    await rays.coordinate(dsn)
    victim, survivor = await until_serving(dsn, 2)

    async with exactly_once(dsn) as load:
        load.kill = await kill_shard(dsn, victim)
        await until_serving(dsn, 1, within_s=TAKEOVER_S)
        successors = await until_serving(dsn, 2)

    assert survivor.holder in {holder.holder for holder in successors}
    assert 0 < load.takeover_s <= TAKEOVER_S


@pytest.mark.exhaustive
async def test_shards_are_spread_over_nodes_when_nodes_join_and_leave(rays: RayOfNodes, dsn: str) -> None:
    await rays.coordinate(dsn)
    await want(dsn, 4)
    await until_serving(dsn, 4)

    async with exactly_once(dsn):
        node = await rays.add_node()
        # The shards move one after the other. For each shard, the new node must first start a worker process.
        await eventually(lambda: spreads(dsn, {rays.head: 2, node: 2}), within_s=40)

        await rays.kill_node(node)
        # Other shards take over the node's slots in about 2 s, and replacements follow.
        await eventually(lambda: spreads(dsn, {rays.head: 4}), within_s=DEAD_NODE_S)
        await until_serving(dsn, 4)


@pytest.mark.exhaustive
async def test_a_draining_node_has_no_shards_before_it_leaves(rays: RayOfNodes, dsn: str) -> None:
    await rays.coordinate(dsn)
    node = await rays.add_node()
    await until_serving(dsn, 2)
    await eventually(lambda: spreads(dsn, {rays.head: 1, node: 1}))

    async with exactly_once(dsn):
        await rays.drain_node(node, deadline_s=20)
        await eventually(lambda: spreads(dsn, {rays.head: 2}), within_s=15)
        await until_serving(dsn, 2)

    # On a busy machine a second shard may exist for a moment.
    assert set(await ended(dsn, node_id=node)) == {"drained"}, "no shard was taken for dead"


@pytest.mark.exhaustive
async def test_shards_scale_from_2_to_7_to_3_while_timers_fire(rays: RayOfNodes, dsn: str) -> None:
    # Seven processes share a few cores: a process that gets no core for some seconds is not dead, and still drains.
    await rays.coordinate(dsn, silent_s=30.0, drain_s=30.0)
    await until_serving(dsn, 2)

    async with exactly_once(dsn):
        await want(dsn, 7)
        await until_serving(dsn, 7, within_s=60.0)  # five processes start at once, on two cores
        await want(dsn, 3)
        await until_serving(dsn, 3)
        await eventually(lambda: counts_actors(rays, 3))

    assert set(await ended(dsn)) == {"drained"}


async def test_timers_fire_without_a_coordinator_and_the_next_one_adopts_its_shards(rays: RayOfNodes, dsn: str) -> None:
    await rays.coordinate(dsn)
    before = await until_serving(dsn, 2)
    term = await value(dsn, TERM)

    async with exactly_once(dsn) as load:
        await rays.kill_coordinator()
        await eventually(lambda: term_is(dsn, term + 1))
        assert {holder.holder for holder in await until_serving(dsn, 2)} == {holder.holder for holder in before}

        load.kill = await kill_shard(dsn, before[1])
        await until_serving(dsn, 1, within_s=TAKEOVER_S)
        await until_serving(dsn, 2)

    assert load.takeover_s <= TAKEOVER_S


async def test_a_frozen_shard_is_taken_over_in_two_seconds_and_gets_its_slots_back_when_it_wakes(
    rays: RayOfNodes, dsn: str
) -> None:
    await rays.coordinate(dsn)
    frozen, _ = before = await until_serving(dsn, 2)

    async with exactly_once(dsn) as load:
        load.kill = await strike(dsn, frozen, signal.SIGSTOP)
        try:
            await until_serving(dsn, 1, within_s=TAKEOVER_S)
            await eventually(lambda: caught_up(dsn), within_s=TAKEOVER_S)
        finally:
            os.kill(frozen.pid, signal.SIGCONT)
        after = await until_serving(dsn, 2)

    print(f"taken over in {load.takeover_s:.2f} s")  # noqa: T201 - the figure, under -s
    assert 0 < load.takeover_s <= TAKEOVER_S
    assert {holder.holder for holder in after} == {holder.holder for holder in before}, "none was ended"
    assert {holder.suspended_at for holder in after} == {None}


@pytest.mark.exhaustive
async def test_a_frozen_shard_is_replaced_and_stops_when_it_wakes(rays: RayOfNodes, dsn: str) -> None:
    await rays.coordinate(dsn, silent_s=3.5)
    frozen, _ = await until_serving(dsn, 2)

    async with exactly_once(dsn):
        os.kill(frozen.pid, signal.SIGSTOP)
        try:
            await eventually(lambda: has_ended(dsn, frozen, "dead"), within_s=8)
            await until_serving(dsn, 2)
        finally:
            os.kill(frozen.pid, signal.SIGCONT)
        await eventually(lambda: not psutil.pid_exists(frozen.pid), within_s=10)


@pytest.mark.exhaustive
async def test_a_shard_that_dies_while_rays_head_hangs_is_taken_over(rays: RayOfNodes, dsn: str) -> None:
    # Given two shards that serve, and a head that answers no request
    await rays.coordinate(dsn, silent_s=3.5)
    victim, survivor = await until_serving(dsn, 2)
    (head,) = rays.processes("gcs_server")
    async with exactly_once(dsn):
        head.suspend()
        try:
            # When one of the shards dies
            await kill_shard(dsn, victim)

            # Then the other shard gets its slots before Ray answers again
            await eventually(lambda: has_ended(dsn, victim, "dead"), within_s=20)
            (left,) = await until_serving(dsn, 1)
            assert left.holder == survivor.holder
        finally:
            head.resume()
        await until_serving(dsn, 2)


@pytest.mark.exhaustive
async def test_each_start_of_the_coordinator_is_on_the_node_of_up(rays: RayOfNodes, dsn: str) -> None:
    for _ in range(2):
        await rays.add_node()
    await rays.coordinate(dsn)

    for term in range(1, 5):
        await eventually(partial(term_is, dsn, term))
        assert await rays.coordinator_node() == rays.head
        await rays.kill_coordinator()


@pytest.mark.exhaustive
async def test_a_coordinator_without_its_node_runs_on_another_node_until_up_starts_it_on_its_own_node(
    rays: RayOfNodes, dsn: str
) -> None:
    home = await rays.add_node()
    await rays.coordinate(dsn, node_id=home)
    assert await rays.coordinator_node() == home

    await rays.kill_node(home)
    await eventually(lambda: term_is(dsn, 2), within_s=DEAD_NODE_S)
    await rays.add_node()
    await rays.coordinate(dsn)
    await eventually(lambda: term_is(dsn, 3))
    await rays.kill_coordinator()
    await eventually(lambda: term_is(dsn, 4))

    assert await rays.coordinator_node() == rays.head


@pytest.mark.exhaustive
async def test_one_of_two_clusters_on_a_database_leads_and_the_other_follows(
    rays: RayOfNodes, other_rays: RayOfNodes, dsn: str
) -> None:
    await rays.coordinate(dsn, cluster_id="blue")
    await other_rays.coordinate(dsn, cluster_id="green")
    await until_serving(dsn, 2)
    assert await served_by(dsn, "blue")

    async with exactly_once(dsn):
        await rays.stop_coordinator()
        await eventually(lambda: served_by(dsn, "green"), within_s=5)
        await rays.coordinate(dsn, cluster_id="blue")
        assert await value(dsn, "select cluster_id from shardclock.leadership") == "green"

        # The shards of the killed coordinator continue, but have no slots as soon as the other cluster leads.
        await other_rays.kill_coordinator(for_good=True)
        await eventually(lambda: served_by(dsn, "blue"))  # blue's coordinator and shards may still be starting
        await until_serving(dsn, 2)
