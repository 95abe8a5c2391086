"""Test which outcomes a worker settles with one statement."""

from __future__ import annotations

from typing import Any, cast

import structlog

from shardclock_server.sql.deliveries.claim import ClaimedDelivery
from shardclock_server.sql.deliveries.settle import DeliveryEnding, Settlement
from shardclock_server.sql.session import Session
from shardclock_server.workers.delivery_planner import DeliveryPlanner
from shardclock_server.workers.lease_table import LeaseTable
from shardclock_server.workers.settler import BATCH_ENOUGH, GAP_OF_MANY_S, GAP_S, MANY, Settler
from shardclock_server.workers.stats import WorkerStats
from tests.support.handlers import delivery


class Statements:
    """A session that settles all deliveries; further calls end during the first statement."""

    def __init__(self, *, later: int = 0) -> None:
        self.sizes: list[int] = []
        self.settler = Settler(
            cast("Session", self), 1, LeaseTable[ClaimedDelivery](), batch=1_000,
            stats=WorkerStats(), planner=DeliveryPlanner(), log=structlog.get_logger(),
        )  # fmt: skip
        self._later = later

    async def rows(self, _: str, /, **values: Any) -> list[Any]:
        self.sizes.append(len(values["timer_keys"]))
        later, self._later = self._later, 0
        self.settler.settle(ended(later))
        return []


def ended(count: int) -> list[Settlement]:
    return [Settlement(delivery(key), DeliveryEnding.DELIVERED) for key in range(count)]


async def test_a_few_outcomes_that_arrive_during_a_statement_wait_for_more() -> None:
    statements = Statements(later=BATCH_ENOUGH - 1)
    statements.settler.settle(ended(1))

    await statements.settler.turn()

    assert statements.sizes == [1]
    assert len(statements.settler) == BATCH_ENOUGH - 1
    assert not statements.settler.enough.is_set()


async def test_enough_outcomes_that_arrive_during_a_statement_are_settled_immediately() -> None:
    statements = Statements(later=BATCH_ENOUGH)
    statements.settler.settle(ended(1))

    await statements.settler.turn()

    assert statements.sizes == [1, BATCH_ENOUGH]


async def test_the_pause_is_longer_after_many_outcomes() -> None:
    statements = Statements()

    statements.settler.settle(ended(MANY - 1))
    after_few_s = await statements.settler.turn()
    statements.settler.settle(ended(MANY))

    assert (after_few_s, await statements.settler.turn()) == (GAP_S, GAP_OF_MANY_S)


async def test_enough_outcomes_end_the_pause() -> None:
    statements = Statements()

    statements.settler.settle(ended(BATCH_ENOUGH - 1))
    assert not statements.settler.enough.is_set()
    statements.settler.settle(ended(1))

    assert statements.settler.enough.is_set()
