"""Prove that each component of a keeper ends, even if another component fails or waits."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping

import pytest

from shardclock_server.keepers.keeper import Keeper, KeeperPart
from shardclock_server.keepers.registration import Registration
from shardclock_server.keepers.settings import KeeperSettings
from shardclock_server.sql.cluster.holders import WORKER, Incarnation
from shardclock_server.sql.session import StatementRefused, StoreUnavailable
from tests.support.factories import BOUND_S, query
from tests.support.roles import as_role
from tests.support.waiting import eventually

HOLDER = 7


class Faulty(KeeperPart):
    """A component that fails when it is ended, or never ends."""

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
    """A component that records the steps of its end."""

    def __init__(self) -> None:
        self.steps: list[str] = []

    async def break_off(self) -> None:
        self.steps.append("broken off")

    async def hand_back(self) -> None:
        self.steps.append("handed back")


class TwoParts(Keeper):
    """A keeper of two parts."""

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
