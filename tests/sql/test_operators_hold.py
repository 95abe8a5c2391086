"""Prove that an operator's hold stops all keepers, and that the owner gets the database back when the hold ends."""

from __future__ import annotations

from collections.abc import AsyncIterator

import asyncpg
import pytest

from shardclock_server.sql.cluster.holders import SHARD, Incarnation, beat, list_holders, register_holder
from shardclock_server.sql.cluster.identity import hold, read_identity, release
from shardclock_server.sql.cluster.leadership import lead
from shardclock_server.sql.metrics.measures import measure_cluster
from shardclock_server.sql.session import Session, StatementRefused
from tests.support.deliveries import deliver, serving_worker
from tests.support.factories import HolderClient, add_holder, add_timers, query, value
from tests.support.roles import as_role

PROD, STAGING = "prod", "staging"
WHY = "billing is down"
SAID = f"an operator said: {WHY}"


@pytest.fixture
async def operator(dsn: str) -> AsyncIterator[Session]:
    """Yield the session of an operator, on production's database."""
    await query(dsn, "select shardclock.adopt($1)", PROD)
    async with Session(as_role(dsn, "shard"), application="test") as session:
        yield session


async def register(operator: Session, holder: int, identity: str) -> None:
    await register_holder(operator, Incarnation(holder, SHARD, identity, f"a{holder}", "n", "h", 1, identity))


async def fires(shard: HolderClient) -> int:
    """Claim timers as a shard; return the number of fired or leased timers."""
    taken = [await shard.take(scope=scope, fire_overdue=True) for scope in ("own", "newest", "outage", "sweep")]
    return sum(it.fired + len(it.claimed) for it in taken)


async def test_no_timer_is_claimed_during_a_hold_and_every_timer_is_claimed_afterwards(
    dsn: str, operator: Session
) -> None:
    await add_holder(dsn, 1)
    await add_timers(dsn, 5)
    async with HolderClient(dsn, holder=1) as shard:
        assert await hold(operator, WHY) is None
        assert await fires(shard) == 0
        assert (await beat(operator, 1, held=0)).hold_reason == SAID  # type: ignore[union-attr]
        measured = await measure_cluster(operator)
        assert (measured.holders_on_hold, measured.is_held) == (1, True)

        assert await release(operator, PROD)
        assert await fires(shard) == 5


async def test_no_delivery_is_claimed_during_a_hold(dsn: str, operator: Session) -> None:
    await add_holder(dsn, 1)
    async with HolderClient(dsn, holder=1) as shard, serving_worker(dsn) as worker:
        await deliver(shard, 3)
        await hold(operator, WHY)
        assert await worker.take() == []

        await release(operator, PROD)
        assert len(await worker.take()) == 3


async def test_a_new_reason_of_a_hold_replaces_the_former_reason(operator: Session) -> None:
    await hold(operator, "one")
    assert await hold(operator, "two") == "one"
    assert (await read_identity(operator, PROD)).hold_reason == "an operator said: two"


async def test_the_database_is_released_to_its_owner_by_any_caller(dsn: str, operator: Session) -> None:
    adopted = await value(dsn, "select adopted_at from shardclock.identity")
    await hold(operator, WHY)

    assert await release(operator, PROD)

    found = await read_identity(operator, PROD)
    assert (found.name, found.hold_reason, found.origin) == (PROD, None, found.here)
    assert await value(dsn, "select adopted_at from shardclock.identity") == adopted
    assert not await release(operator, PROD), "there is nothing to release"


async def test_a_caller_without_a_name_ends_the_hold_for_the_owner(operator: Session) -> None:
    await hold(operator, WHY)

    assert await release(operator, "")

    found = await read_identity(operator, PROD)
    assert (found.name, found.hold_reason) == (PROD, None)


async def test_a_cluster_of_another_installation_does_not_get_the_database_at_the_end_of_the_hold(
    operator: Session,
) -> None:
    await register(operator, 1, PROD)
    await register(operator, 2, STAGING)
    await hold(operator, WHY)

    stray = "the database belongs to prod, and the cluster is staging"
    assert not await release(operator, STAGING)
    found = await read_identity(operator, STAGING)
    assert (found.name, found.is_held) == (PROD, True)
    assert {it.holder: it.hold_reason for it in await list_holders(operator)} == {1: SAID, 2: f"{stray}; {SAID}"}

    assert await release(operator, PROD)
    assert {it.holder: it.hold_reason for it in await list_holders(operator)} == {1: None, 2: stray}


async def test_during_the_hold_a_coordinator_of_the_owner_leads_and_a_foreign_coordinator_does_not(
    operator: Session,
) -> None:
    await hold(operator, WHY)

    for leader, identity, leads in ((1, STAGING, False), (2, PROD, True)):
        led = await lead(operator, leader, cluster_id=identity, lease_s=60, fresh=True, identity=identity)
        assert led.leads is leads


async def test_a_database_without_an_owner_may_be_put_on_hold(dsn: str) -> None:
    async with Session(as_role(dsn, "shard"), application="test") as session:
        await hold(session, WHY)
        assert (await read_identity(session, "")).hold_reason == SAID

        assert await release(session, "")
        found = await read_identity(session, "")
        assert (found.name, found.origin, found.hold_reason) == (None, None, None)


@pytest.mark.shared_database
@pytest.mark.parametrize("why", ["", "two\nlines", "x" * 201])
async def test_a_reason_must_be_one_line(dsn: str, operator: Session, why: str) -> None:
    with pytest.raises(StatementRefused):
        await hold(operator, why)
    with pytest.raises(asyncpg.CheckViolationError):
        await query(dsn, "update shardclock.identity set held_why = $1", why)
    assert not (await read_identity(operator, PROD)).is_held
