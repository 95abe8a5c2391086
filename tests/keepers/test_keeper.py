"""A keeper registers once, reports the end of its holder, and stops all its components."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Mapping

import pytest

from shardclock_server.keepers.heartbeat import Heartbeat, HolderEnded
from shardclock_server.keepers.keeper import EARLY_BEAT_S, EARLY_BEATS, Keeper, KeeperPart
from shardclock_server.keepers.registration import Registration
from shardclock_server.keepers.settings import KeeperSettings
from shardclock_server.shards.settings import ShardSettings
from shardclock_server.shards.shard import Shard
from shardclock_server.sql.cluster.holders import SHARD, WORKER, Incarnation, assign, end_holders, list_holders
from shardclock_server.sql.cluster.leadership import lead
from shardclock_server.sql.session import Session, StatementRefused, StoreUnavailable
from tests.support.factories import BOUND_S, query
from tests.support.roles import as_role
from tests.support.waiting import eventually

HOLDER = 7


class Faulty(KeeperPart):
    """A component that fails when it is stopped, or never stops."""

    def __init__(self, *, broken_off: Exception | None = None, handed_back: Exception | None = None) -> None:
        self._broken_off, self._handed_back = broken_off, handed_back

    async def break_off(self) -> None:
        """Fail if this step is the faulty one."""
        if self._broken_off is not None:
            raise self._broken_off

    async def hand_back(self) -> None:
        """Fail if this step is the faulty one; wait if no step is faulty."""
        if self._handed_back is not None:
            raise self._handed_back
        if self._broken_off is None:
            await asyncio.Event().wait()


class Sound(KeeperPart):
    """A component that records the steps of its stop."""

    def __init__(self) -> None:
        self.steps: list[str] = []

    async def break_off(self) -> None:
        self.steps.append("broken off")

    async def hand_back(self) -> None:
        self.steps.append("handed back")


class TwoParts(Keeper):
    """A keeper with two components."""

    def __init__(self, dsn: str, first: KeeperPart, second: KeeperPart) -> None:
        incarnation = Incarnation(HOLDER, WORKER, "test", "test", "test", "test", 1)
        settings = KeeperSettings(heartbeat_s=0.02)
        registration = Registration(incarnation, settings, as_role(dsn, "shard"), retry_s=0.01, failures=Counter())
        super().__init__(registration, settings, registration.session("last"))
        self._parts = [first, second]
        self.is_handed_back: bool | None = None

    def report(self, *, leaving: bool = False) -> None:
        """Report nothing."""

    def drained(self, *, is_handed_back: bool) -> Mapping[str, int]:
        """Record whether the holder was ended."""
        self.is_handed_back = is_handed_back
        return {}


async def drained_keeper(dsn: str, faulty: KeeperPart, sound: KeeperPart) -> TwoParts:
    keeper = TwoParts(dsn, faulty, sound)
    run = asyncio.create_task(keeper.run())

    async def is_registered() -> bool:
        return bool(await query(dsn, "select from shardclock.holders"))

    await eventually(is_registered)
    await keeper.drain()
    async with asyncio.timeout(BOUND_S):
        await run
    return keeper


async def test_a_part_that_can_not_be_cancelled_delays_neither_the_other_parts_nor_the_end_of_the_holder(
    dsn: str,
) -> None:
    sound = Sound()
    keeper = await drained_keeper(dsn, Faulty(broken_off=RuntimeError("no")), sound)

    assert sound.steps == ["broken off", "handed back"]
    assert keeper.is_handed_back
    assert await query(dsn, "select from shardclock.holders where ended_at is not null")


@pytest.mark.parametrize(
    "faulty",
    [Faulty(), Faulty(handed_back=StoreUnavailable("no")), Faulty(handed_back=StatementRefused("no"))],
    ids=["waits", "no answer", "refused"],
)
async def test_a_part_whose_unwritten_rows_can_not_be_written_takes_no_time_from_the_other_parts(
    dsn: str, faulty: KeeperPart
) -> None:
    sound = Sound()
    keeper = await drained_keeper(dsn, faulty, sound)

    assert sound.steps == ["broken off", "handed back"]
    assert keeper.is_handed_back is False


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
    """Send a heartbeat; return whether the next one follows an interval after the sending, not after the answer."""
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
