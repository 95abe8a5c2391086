"""Operators set the wanted number of shards. The leader changes the number only within the bounds of a policy."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from shardclock_server.sql.cluster.holders import SHARD
from shardclock_server.sql.cluster.leadership import (
    ScalingPolicy,
    follow_forecast,
    hand_over,
    lead,
    read_policy,
    resign,
    scale,
    set_policy,
)
from shardclock_server.sql.session import Session, StatementRefused
from tests.support.factories import HolderClient, add_holder, add_timers, ends, query, waits
from tests.support.roles import SUPERUSER, as_role

ME, TERM = 1, 1


@pytest.fixture
async def session(each_dsn: str) -> AsyncIterator[Session]:
    async with Session(as_role(each_dsn, "shard"), application="test") as opened:
        await lead(opened, ME, cluster_id="blue", lease_s=60.0, fresh=True)
        yield opened


async def follow(session: Session, shards: int, *, leader: int = ME, term: int = TERM) -> bool:
    return await follow_forecast(session, leader, SHARD, term=term, wanted=shards)


async def bounds(session: Session) -> tuple[int, int | None, int | None, int]:
    policy = await read_policy(session, SHARD)
    return policy.wanted, policy.wanted_min, policy.wanted_max, policy.target_per_s


async def test_at_first_there_is_no_policy(session: Session) -> None:
    policy = await read_policy(session, SHARD)

    assert policy == ScalingPolicy(2, None, None, 5_000, alive=0, log_records=0)
    assert policy.capacity_per_s == 0


async def test_a_policy_is_read_with_the_live_holders_and_the_end_of_the_log(session: Session) -> None:
    dsn = as_role(session._dsn.reveal(), SUPERUSER)
    for shard in range(3):
        await add_holder(dsn, 10 + shard, shard, 3)
    await add_holder(dsn, 20, None, None)
    await query(dsn, "update shardclock.beats set seen_at = now() - interval '6 s' where holder = 10")
    for key in await add_timers(dsn, 4):
        await query(dsn, "select shardclock.cancel_timer($1)", key)

    policy = await read_policy(session, SHARD)

    assert (policy.alive, policy.log_records, policy.capacity_per_s) == (2, 4, 10_000)


@pytest.mark.parametrize(
    ("wanted", "least", "most", "then"), [(2, 1, 4, 2), (2, 3, 9, 3), (7, 1, 4, 4), (2, 2, 2, 2), (5, 1, 840, 5)]
)
async def test_a_policy_keeps_the_number_within_its_bounds(
    session: Session, wanted: int, least: int, most: int, then: int
) -> None:
    await scale(session, SHARD, wanted)

    await set_policy(session, SHARD, wanted_min=least, wanted_max=most, target_per_s=None)

    assert await bounds(session) == (then, least, most, 5_000)


async def test_a_call_does_not_change_values_that_it_does_not_name(session: Session) -> None:
    await set_policy(session, SHARD, wanted_min=2, wanted_max=6, target_per_s=1_000)

    await set_policy(session, SHARD, wanted_min=None, wanted_max=4, target_per_s=None)
    assert await bounds(session) == (2, 2, 4, 1_000)

    await set_policy(session, SHARD, wanted_min=3, wanted_max=None, target_per_s=2_000)
    assert await bounds(session) == (3, 3, 4, 2_000)


async def test_a_target_without_bounds_is_not_a_policy(session: Session) -> None:
    await set_policy(session, SHARD, wanted_min=None, wanted_max=None, target_per_s=700)

    assert await bounds(session) == (2, None, None, 700)


@pytest.mark.shared_database
@pytest.mark.parametrize(
    ("least", "most", "target"),
    [(None, 4, None), (3, None, None), (4, 3, None), (0, 3, None), (1, 841, None), (1, 2, 0), (-1, -1, None)],
)
async def test_an_invalid_policy_changes_no_value(
    session: Session, least: int | None, most: int | None, target: int | None
) -> None:
    with pytest.raises(StatementRefused):
        await set_policy(session, SHARD, wanted_min=least, wanted_max=most, target_per_s=target)

    assert await bounds(session) == (2, None, None, 5_000)


async def test_a_fixed_number_ends_a_policy_and_keeps_the_target(session: Session) -> None:
    await set_policy(session, SHARD, wanted_min=3, wanted_max=9, target_per_s=700)

    assert await scale(session, SHARD, 2) == (3, 2)

    assert await bounds(session) == (2, None, None, 700)


# The leader follows the forecast


async def test_the_leader_moves_the_number_within_the_bounds(session: Session) -> None:
    await set_policy(session, SHARD, wanted_min=2, wanted_max=6, target_per_s=None)

    answers = [await follow(session, shards) for shards in (6, 2, 4)]

    assert answers == [True, True, True]
    assert (await bounds(session))[0] == 4


@pytest.mark.parametrize("shards", [0, 1, 7, 841])
async def test_not_even_the_leader_leaves_the_bounds(session: Session, shards: int) -> None:
    await set_policy(session, SHARD, wanted_min=2, wanted_max=6, target_per_s=None)

    assert not await follow(session, shards)

    assert (await bounds(session))[0] == 2


async def test_without_a_policy_only_an_operator_changes_the_number(session: Session) -> None:
    assert not await follow(session, 3)

    assert (await bounds(session))[0] == 2


@pytest.mark.parametrize(("leader", "term"), [(2, 1), (1, 2), (1, 0), (2, 2)])
async def test_a_coordinator_that_does_not_lead_in_this_term_can_not_change_the_number(
    session: Session, leader: int, term: int
) -> None:
    await set_policy(session, SHARD, wanted_min=1, wanted_max=6, target_per_s=None)

    assert not await follow(session, 3, leader=leader, term=term)

    assert (await bounds(session))[0] == 2


async def test_a_former_leader_can_not_change_the_number(session: Session) -> None:
    await set_policy(session, SHARD, wanted_min=1, wanted_max=6, target_per_s=None)

    await hand_over(session, "green", lease_s=60.0)
    assert not await follow(session, 3)
    await lead(session, 2, cluster_id="green", lease_s=60.0, fresh=True)
    assert not await follow(session, 3)
    assert await follow(session, 3, leader=2, term=2)
    await resign(session, 2)
    assert not await follow(session, 4, leader=2, term=2)

    assert (await bounds(session))[0] == 3


# Concurrent changes by an operator and the leader


@pytest.fixture
async def rivals(session: Session) -> AsyncIterator[tuple[HolderClient, HolderClient]]:
    """Set the bounds 1 and 6; yield an operator and the leader, on connections with transactions."""
    await set_policy(session, SHARD, wanted_min=1, wanted_max=6, target_per_s=None)
    dsn = as_role(session._dsn.reveal(), SUPERUSER)
    async with HolderClient(dsn, role="shard") as operator, HolderClient(dsn, role="shard") as leader:
        yield operator, leader


async def test_if_an_operator_changes_the_number_before_the_leader_the_operators_number_is_kept(
    session: Session, rivals: tuple[HolderClient, HolderClient]
) -> None:
    operator, leader = rivals
    await operator.begin()
    await scale(operator.session, SHARD, 4)
    following = await waits(leader, follow(leader.session, 3))

    await operator.commit()

    assert not await ends(following)
    assert await bounds(session) == (4, None, None, 5_000)


async def test_if_an_operator_changes_the_number_after_the_leader_the_operators_number_is_kept(
    session: Session, rivals: tuple[HolderClient, HolderClient]
) -> None:
    operator, leader = rivals
    await leader.begin()
    assert await follow(leader.session, 3)
    scaling = await waits(operator, scale(operator.session, SHARD, 4))

    await leader.commit()

    assert await ends(scaling) == (3, 4), "it changed the leader's values"
    assert await bounds(session) == (4, None, None, 5_000)


async def test_the_leader_obeys_bounds_that_were_changed_at_the_same_time(
    session: Session, rivals: tuple[HolderClient, HolderClient]
) -> None:
    operator, leader = rivals
    await operator.begin()
    await set_policy(operator.session, SHARD, wanted_min=1, wanted_max=2, target_per_s=None)
    following = await waits(leader, follow(leader.session, 5))

    await operator.commit()

    assert not await ends(following)
    assert await bounds(session) == (2, 1, 2, 5_000)
