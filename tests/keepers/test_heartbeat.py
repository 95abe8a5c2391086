"""A heartbeat registers its holder once, keeps the last answer, and says when the holder was ended."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from shardclock_server.keepers.heartbeat import Heartbeat, HolderEnded
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


async def test_it_registers_once_and_brings_back_what_it_is_assigned(session: Session, heartbeat: Heartbeat) -> None:
    term = (await lead(session, LEADER, cluster_id="blue", lease_s=60.0, fresh=True)).term
    await heartbeat.beat(held=0)
    assert (heartbeat.last.part, heartbeat.last.part_count) == (None, None)

    await assign(session, leader=LEADER, term=term, parts={ME: 1}, part_count=3)
    await heartbeat.beat(held=5)

    assert (heartbeat.last.part, heartbeat.last.part_count) == (1, 3)
    assert heartbeat.round_trip_s > 0
    (holder,) = await list_holders(session)
    assert (holder.holder, holder.role, holder.held) == (ME, SHARD, 5)


async def test_a_holder_that_was_ended_is_told_and_does_not_register_again(
    session: Session, heartbeat: Heartbeat
) -> None:
    await heartbeat.beat(held=0)
    await end_holders(session, [ME], why="dead")

    with pytest.raises(HolderEnded, match="0000000000000007 has been ended"):
        await heartbeat.beat(held=0)

    assert await list_holders(session) == []
