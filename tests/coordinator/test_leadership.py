"""One coordinator leads at a time. If the leader hands over the lead, only the named cluster gets the lead."""

from __future__ import annotations

import asyncio
from datetime import datetime

import pytest

from shardclock_server.sql.cluster.holders import ENGINE, SHARD, WORKER, assign, list_holders, register_holder
from shardclock_server.sql.cluster.leadership import Leadership, hand_over, lead, resign
from shardclock_server.sql.session import Session
from tests.support.factories import query, seconds, value
from tests.support.fake_fleet import BLUE, GREEN, LEASE_S, ask, incarnation
from tests.support.roles import as_role

# The default numbers of keepers: no workers without a target, and no engines without a process.
WANTED = {SHARD: 2, WORKER: 0, ENGINE: 0}


async def run_out(dsn: str) -> None:
    await query(dsn, "update shardclock.leadership set lease_until = clock_timestamp()")


async def test_the_first_coordinator_that_asks_leads_and_renews_its_lead_in_the_same_term(
    session: Session, dsn: str
) -> None:
    first = await ask(session, 1, BLUE, fresh=True)
    until: datetime = await value(dsn, "select lease_until from shardclock.leadership")
    again = await ask(session, 1, BLUE)

    assert first == again == Leadership(leads=True, term=1, leader=1, cluster_id=BLUE, wanted=WANTED)
    assert await value(dsn, "select lease_until from shardclock.leadership") > until


async def test_another_cluster_waits_for_the_lease_and_then_leads_in_a_new_term(session: Session, dsn: str) -> None:
    await ask(session, 1, BLUE, fresh=True)
    waits = Leadership(leads=False, term=1, leader=1, cluster_id=BLUE, wanted=WANTED)

    assert await ask(session, 2, GREEN, fresh=True) == waits
    assert await ask(session, 2, GREEN) == waits

    await run_out(dsn)
    assert await ask(session, 2, GREEN) == Leadership(True, 2, 2, GREEN, WANTED)
    assert not (await ask(session, 1, BLUE)).leads


async def test_a_new_incarnation_takes_the_lead_immediately_and_its_predecessor_never_gets_the_lead_back(
    session: Session,
) -> None:
    await ask(session, 1, BLUE, fresh=True)

    assert await ask(session, 2, BLUE, fresh=True) == Leadership(True, 2, 2, BLUE, WANTED)
    assert await ask(session, 1, BLUE) == Leadership(False, 2, 2, BLUE, WANTED)


async def test_one_of_many_simultaneous_callers_gets_the_lead(dsn: str) -> None:
    async def one(leader: int) -> bool:
        async with Session(as_role(dsn, "shard"), application="test") as session:
            return (await ask(session, leader, f"cluster {leader}", fresh=True)).leads

    assert sum(await asyncio.gather(*map(one, range(1, 9)))) == 1


async def test_a_leader_that_resigns_is_replaced_immediately(session: Session) -> None:
    await ask(session, 1, BLUE, fresh=True)
    await resign(session, 1)

    assert (await ask(session, 2, GREEN)).leads


async def test_only_the_leader_can_resign(session: Session) -> None:
    await ask(session, 1, BLUE, fresh=True)
    await resign(session, 2)

    assert not (await ask(session, 2, GREEN)).leads


async def test_a_lease_that_ends_too_far_ahead_is_free_because_the_clock_was_set_back(
    session: Session, dsn: str
) -> None:
    await ask(session, 1, BLUE, fresh=True)

    for ends, leads in ((2 * LEASE_S - 1, False), (2 * LEASE_S + 60, True)):
        await query(dsn, "update shardclock.leadership set lease_until = clock_timestamp() + $1", seconds(ends))
        assert (await ask(session, 2, GREEN)).leads is leads


async def test_a_lead_that_is_handed_over_for_longer_than_a_short_lease_is_kept(session: Session) -> None:
    await hand_over(session, GREEN, lease_s=10)

    assert not (await lead(session, 1, cluster_id=BLUE, lease_s=1, fresh=True)).leads


@pytest.mark.parametrize(("leader", "term", "taken"), [(1, 2, False), (2, 1, False), (2, 2, True)])
async def test_only_the_leader_in_its_term_assigns(session: Session, leader: int, term: int, taken: bool) -> None:
    await ask(session, 1, BLUE, fresh=True)
    await ask(session, 2, BLUE, fresh=True)
    await register_holder(session, incarnation(7))

    assert await assign(session, leader=leader, term=term, parts={7: 0}, part_count=1) is taken
    assert [holder.part for holder in await list_holders(session)] == [0 if taken else None]


async def test_only_the_named_cluster_can_take_a_lead_that_was_handed_over(session: Session, dsn: str) -> None:
    await ask(session, 1, BLUE, fresh=True)
    assert await hand_over(session, GREEN, lease_s=LEASE_S)

    assert not (await ask(session, 1, BLUE)).leads
    assert not (await ask(session, 3, "red", fresh=True)).leads
    assert await ask(session, 2, GREEN) == Leadership(True, 2, 2, GREEN, WANTED)
    assert not await hand_over(session, GREEN, lease_s=LEASE_S), "it leads already"


async def test_any_cluster_may_take_a_reserved_lead_after_the_end_of_the_reservation(
    session: Session, dsn: str
) -> None:
    await ask(session, 1, BLUE, fresh=True)
    await hand_over(session, GREEN, lease_s=LEASE_S)
    await run_out(dsn)

    assert (await ask(session, 1, BLUE)).leads


async def test_only_a_coordinator_of_the_named_node_can_take_a_lead_that_was_handed_over(
    session: Session, dsn: str
) -> None:
    async def ask_for(node_id: str, leader: int, *, fresh: bool = False) -> bool:
        return (await lead(session, leader, cluster_id=GREEN, lease_s=LEASE_S, fresh=fresh, node_id=node_id)).leads

    await ask(session, 1, BLUE, fresh=True)
    await hand_over(session, GREEN, lease_s=LEASE_S, node_id="second")

    assert not await ask_for("first", 2)
    assert not await ask_for("first", 3, fresh=True)
    assert await ask_for("second", 4)
    assert not await ask_for("first", 2)

    # The cluster's next coordinator, on another node, takes the lead immediately
    assert await ask_for("third", 5, fresh=True)
    await resign(session, 5)
    assert await ask_for("fourth", 6)

    # If no coordinator took the lead in time, a new coordinator may take the lead
    await resign(session, 6)
    await ask(session, 1, BLUE)
    await hand_over(session, GREEN, lease_s=LEASE_S, node_id="lost")
    await run_out(dsn)
    assert not await ask_for("first", 2)
    assert await ask_for("fifth", 7, fresh=True)
