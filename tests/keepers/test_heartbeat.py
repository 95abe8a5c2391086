"""A heartbeat registers its holder once, keeps the last answer, and reports the end of the holder."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from shardclock_server.keepers.heartbeat import Heartbeat, HolderEnded
from shardclock_server.keepers.keeper import EARLY_BEAT_S, EARLY_BEATS
from shardclock_server.shards.settings import ShardSettings
from shardclock_server.shards.shard import Shard
from shardclock_server.sql.cluster.holders import SHARD, Incarnation, assign, end_holders, list_holders
from shardclock_server.sql.cluster.leadership import lead
from shardclock_server.sql.session import Session
from tests.support.roles import as_role

ME, LEADER = 7, 1


@pytest.fixture
async def session(dsn: str) -> AsyncIterator[Session]:
    async with Session(as_role(dsn, "shard"), application="test") as opened:
        yield opened


@pytest.fixture
async def heartbeat(dsn: str) -> AsyncIterator[Heartbeat]:
    one = Heartbeat(Incarnation(ME, SHARD, "blue", "shard-1", "node", "host", 1), as_role(dsn, "shard"), timeout_s=5.0)
    yield one
    await one.close()


async def test_a_keeper_registers_once_and_gets_its_assignment(session: Session, heartbeat: Heartbeat) -> None:
    term = (await lead(session, LEADER, cluster_id="blue", lease_s=60.0, fresh=True)).term
    await heartbeat.beat(held=0)
    assert (heartbeat.last.part, heartbeat.last.part_count) == (None, None)

    await assign(session, leader=LEADER, term=term, parts={ME: 1}, part_count=3)
    await heartbeat.beat(held=5)

    assert (heartbeat.last.part, heartbeat.last.part_count) == (1, 3)
    assert heartbeat.round_trip_s > 0
    (holder,) = await list_holders(session)
    assert (holder.holder, holder.role, holder.held) == (ME, SHARD, 5)


async def test_an_ended_holder_learns_its_end_and_does_not_register_again(
    session: Session, heartbeat: Heartbeat
) -> None:
    await heartbeat.beat(held=0)
    await end_holders(session, [ME], why="dead")

    with pytest.raises(HolderEnded, match="0000000000000007 has been ended"):
        await heartbeat.beat(held=0)

    assert await list_holders(session) == []


async def is_next_after(keeper: Shard, interval_s: float) -> bool:
    """Send a heartbeat; return whether the next comes an interval after this one was sent, not after its answer."""
    wait_s = await keeper.beat_turn()
    return wait_s == max(interval_s / 2, interval_s - keeper._heartbeat.round_trip_s)


async def test_a_new_keeper_sends_more_heartbeats_for_a_second_until_it_has_slots(session: Session, dsn: str) -> None:
    term = (await lead(session, LEADER, cluster_id="blue", lease_s=60.0, fresh=True)).term
    beside, served = (
        Shard(
            Incarnation(holder, SHARD, "blue", f"shard-{holder}", "node", "host", 1),
            ShardSettings(),
            as_role(dsn, "shard"),
        )
        for holder in (ME, ME + 1)
    )

    assert await is_next_after(served, EARLY_BEAT_S)
    await assign(session, leader=LEADER, term=term, parts={ME + 1: 0}, part_count=1)
    assert await is_next_after(served, ShardSettings().heartbeat_s)
    for _ in range(EARLY_BEATS):
        assert await is_next_after(beside, EARLY_BEAT_S)
    assert await is_next_after(beside, ShardSettings().heartbeat_s)

    for keeper in (beside, served):
        await keeper._heartbeat.close()
