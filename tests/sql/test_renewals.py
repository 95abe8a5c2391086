"""After a lost answer the holder sends a heartbeat or a renewal again.

The first attempt may commit after the second attempt.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from shardclock_server.sql.cluster.holders import ENGINE, SHARD, WORKER, beat, end_holders, list_holders
from shardclock_server.sql.cluster.leadership import Leadership, lead, resign
from tests.support.factories import HolderClient, add_holder, ends, query, value, waits

ME, LEADER, OTHER = 101, 1, 2
WANTED = {SHARD: 2, WORKER: 0, ENGINE: 0}  # as in a database without a target, which needs no workers


@pytest.fixture
async def before(each_dsn: str) -> AsyncIterator[HolderClient]:
    """Yield a connection with lost answers and slow commits."""
    async with HolderClient(each_dsn, role="shard") as hand:
        yield hand


@pytest.fixture
async def again(each_dsn: str) -> AsyncIterator[HolderClient]:
    """Yield the connection that replaces the first connection."""
    async with HolderClient(each_dsn, role="shard") as hand:
        yield hand


# --- Beats ---


async def test_a_repeated_beat_finds_its_holder_alive_and_becomes_its_last_beat(
    each_dsn: str, before: HolderClient, again: HolderClient
) -> None:
    await add_holder(each_dsn, ME, 1, 3)
    await before.begin()
    assert await beat(before.session, ME, held=1)
    later = await waits(again, beat(again.session, ME, held=2))
    await before.commit()

    answer = await ends(later)

    assert answer is not None, "it was not ended"
    assert (answer.part, answer.part_count) == (1, 3)
    assert [it.held for it in await list_holders(again.session)] == [2]


async def test_a_heartbeat_without_effect_ends_no_live_holder(each_dsn: str, before: HolderClient) -> None:
    await add_holder(each_dsn, ME)
    await query(
        each_dsn, "create function writes_nothing() returns trigger language plpgsql as 'begin return null; end'"
    )
    await query(
        each_dsn,
        "create trigger writes_nothing before update on shardclock.beats"
        " for each row execute function public.writes_nothing()",
    )

    assert await beat(before.session, ME, held=1)


async def test_an_ended_holder_learns_its_end_and_its_last_heartbeat_is_kept(
    each_dsn: str, before: HolderClient
) -> None:
    await add_holder(each_dsn, ME)
    assert await beat(before.session, ME, held=1)
    await end_holders(before.session, [ME], why="test")

    assert await beat(before.session, ME, held=2) is None
    assert await value(each_dsn, "select held from shardclock.beats") == 1


# --- The lead ---


async def ask(hand: HolderClient, leader: int = LEADER, *, fresh: bool = False, cluster_id: str = "blue") -> Leadership:
    return await lead(hand.session, leader, cluster_id=cluster_id, lease_s=5.0, fresh=fresh)


async def test_a_leader_with_a_repeated_renewal_leads_on_in_its_term(before: HolderClient, again: HolderClient) -> None:
    first = await ask(before, fresh=True)
    await before.begin()
    assert await ask(before) == first
    later = await waits(again, ask(again))
    await before.commit()

    assert await ends(later) == first
    assert first.leads


async def test_a_renewal_does_not_replace_a_new_leader(before: HolderClient, again: HolderClient) -> None:
    await ask(again, fresh=True)
    await before.begin()
    assert await ask(before, OTHER, fresh=True) == Leadership(True, 2, OTHER, "blue", WANTED)
    later = await waits(again, ask(again))
    await before.commit()

    assert not (await ends(later)).leads
    assert await ask(again) == Leadership(False, 2, OTHER, "blue", WANTED)


async def test_one_of_two_clusters_that_find_the_lead_free_gets_the_lead(
    before: HolderClient, again: HolderClient
) -> None:
    await ask(before, fresh=True)
    await resign(before.session, LEADER)
    await before.begin()
    assert (await ask(before)).leads
    later = await waits(again, ask(again, OTHER, cluster_id="green"))
    await before.commit()

    assert not (await ends(later)).leads
