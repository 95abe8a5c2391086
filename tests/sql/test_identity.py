"""Prove that a copy of a database, made in any way, fires nothing before its release, and stops no other database."""

from __future__ import annotations

import json
import secrets
from collections.abc import AsyncIterator
from typing import Any

import asyncpg
import pytest

from shardclock.log.async_reading import read_log
from shardclock_server.sql.cluster.holders import SHARD, Incarnation, beat, end_holders, list_holders, register_holder
from shardclock_server.sql.cluster.identity import read_identity, release
from shardclock_server.sql.cluster.leadership import lead
from shardclock_server.sql.metrics.measures import measure_cluster
from shardclock_server.sql.session import Session
from tests.support.factories import BOUND_S, HolderClient, add_timers, ends, query, waits

ME, OTHER, OLDER = 1, 2, 3
PROD, STAGING, UNNAMED = "prod", "staging", ""


@pytest.fixture
async def hand(each_dsn: str) -> AsyncIterator[HolderClient]:
    """Yield a client of a database on which no cluster has run."""
    async with HolderClient(each_dsn, holder=ME) as hand:
        yield hand


@pytest.fixture
async def copied(each_dsn: str) -> AsyncIterator[HolderClient]:
    """Yield a client of a clone of production's database, with five overdue timers."""
    async with HolderClient(each_dsn, role="shard") as production:
        await start(production, PROD, holder=OTHER)
        await end_holders(production.session, [OTHER], why="stopped")
    await add_timers(each_dsn, 5)
    name = f"t_{secrets.token_hex(8)}"
    source = each_dsn.partition("?")[0].rpartition("/")[2]
    maintenance = each_dsn.replace(f"/{source}?", "/postgres?")
    await query(maintenance, f"create database {name} template {source} strategy file_copy")
    try:
        async with HolderClient(each_dsn.replace(f"/{source}?", f"/{name}?"), holder=ME) as hand:
            yield hand
    finally:
        await query(maintenance, f"drop database {name} with (force)")


async def start(hand: HolderClient, identity: str, *, holder: int = ME) -> None:
    await register_holder(hand.session, Incarnation(holder, SHARD, "c", f"a{holder}", "n", "h", 1, identity))
    await hand.value("update shardclock.holders set part = 0, part_count = 1 where holder = $1 returning 1", holder)


async def fires(hand: HolderClient) -> int:
    """Claim timers for a holder with each kind of claim; return the number of fired or leased timers."""
    taken = [
        await hand.take(scope=scope, fire_overdue=fire_overdue)
        for scope in ("own", "newest", "outage", "sweep")
        for fire_overdue in (True, False)
    ]
    return sum(it.fired + len(it.claimed) for it in taken)


async def belongs(hand: HolderClient, identity: str = UNNAMED) -> tuple[str | None, bool]:
    """Read the database's name, and whether its origin is unchanged."""
    found = await read_identity(hand.session, identity)
    return found.name, found.origin == found.here


# The owner of a database


@pytest.mark.parametrize(("identity", "name"), [(PROD, PROD), (UNNAMED, None)])
async def test_a_database_without_an_owner_belongs_to_the_first_cluster(
    hand: HolderClient, identity: str, name: str | None
) -> None:
    assert (await read_identity(hand.session, identity)).origin is None
    assert (await lead(hand.session, 1, cluster_id="c", lease_s=60, fresh=True, identity=identity)).leads
    await start(hand, identity)
    await add_timers(hand.dsn, 5)

    assert await belongs(hand) == (name, True)
    assert await fires(hand) == 5


async def test_a_database_without_a_name_gets_one_from_the_next_cluster_with_a_name(hand: HolderClient) -> None:
    await start(hand, UNNAMED, holder=OTHER)
    await end_holders(hand.session, [OTHER], why="drained")

    await start(hand, PROD)

    assert await belongs(hand) == (PROD, True)


async def test_a_cluster_that_connects_by_mistake_gives_no_name_to_a_database_on_which_another_fires(
    hand: HolderClient,
) -> None:
    await start(hand, UNNAMED, holder=OTHER)

    await start(hand, STAGING)

    assert await belongs(hand) == (None, True)
    assert (await beat(hand.session, OTHER, held=0)).hold_reason is None  # type: ignore[union-attr]


async def test_the_first_of_two_clusters_that_start_at_once_gives_the_name(hand: HolderClient, each_dsn: str) -> None:
    async with HolderClient(each_dsn, role="shard") as slow:
        await slow.begin()
        await slow.value("select shardclock.adopt($1)::text", STAGING)
        second = await waits(hand, start(hand, PROD))
        await slow.commit()
        await ends(second)

    assert await belongs(hand) == (STAGING, True)
    assert "belongs to staging" in (await beat(hand.session, ME, held=0)).hold_reason  # type: ignore[union-attr,operator]


async def test_if_two_clusters_register_simultaneously_only_the_first_gets_an_unnamed_database(
    hand: HolderClient, each_dsn: str
) -> None:
    await start(hand, UNNAMED, holder=9)
    await end_holders(hand.session, [9], why="drained")
    async with HolderClient(each_dsn, role="shard") as slow:
        # Given a cluster that has locked the row, but has not yet inserted its holder
        await slow.begin()
        await slow.value("select 1 from shardclock.identity for update")
        second = await waits(hand, start(hand, STAGING))
        await slow.value(
            "with registered as ("
            " insert into shardclock.holders (holder, cluster_id, actor_name, node_id, host, pid, identity)"
            " values (2, 'c', 'a', 'n', 'h', 1, '') returning holder)"
            " insert into shardclock.beats (holder) select holder from registered returning 1"
        )
        await slow.commit()
        await ends(second)

    assert await belongs(hand) == (None, True)


@pytest.mark.shared_database
@pytest.mark.parametrize("name", ["", "two words", "-x", "x" * 64])
async def test_an_invalid_setting_is_an_invalid_name(hand: HolderClient, name: str) -> None:
    with pytest.raises(asyncpg.CheckViolationError):
        await query(hand.dsn, "update shardclock.identity set name = $1", name)


# Holds


@pytest.mark.parametrize("identity", [PROD, STAGING, UNNAMED])
async def test_a_clone_fires_no_timer_whatever_its_clusters_name(copied: HolderClient, identity: str) -> None:
    await start(copied, identity)

    assert await fires(copied) == 0
    assert "is a copy" in (await beat(copied.session, ME, held=0)).hold_reason  # type: ignore[union-attr,operator]
    assert (await belongs(copied)) == (PROD, False)
    assert (await measure_cluster(copied.session)).holders_on_hold == 1


@pytest.mark.parametrize(
    ("identity", "why"),
    [
        (STAGING, "the database belongs to prod, and the cluster is staging"),
        (UNNAMED, "the database belongs to prod, and the cluster has no SHARDCLOCK_IDENTITY"),
    ],
)
async def test_a_cluster_on_another_installations_database_fires_nothing_and_stops_no_other_cluster(
    hand: HolderClient, identity: str, why: str
) -> None:
    await start(hand, PROD, holder=OTHER)
    await start(hand, identity)
    await add_timers(hand.dsn, 5)

    assert await fires(hand) == 0
    assert (await beat(hand.session, ME, held=0)).hold_reason == why  # type: ignore[union-attr]
    assert {it.holder: it.hold_reason for it in await list_holders(hand.session)} == {ME: why, OTHER: None}
    assert (await measure_cluster(hand.session)).holders_on_hold == 1
    async with HolderClient(hand.dsn, holder=OTHER) as production:
        assert await fires(production) == 5


async def test_a_cluster_on_hold_never_leads_and_does_not_change_the_slots_of_an_absent_leader(
    hand: HolderClient,
) -> None:
    await start(hand, PROD, holder=OTHER)

    async def ask(leader: int, identity: str) -> Any:
        return await lead(hand.session, leader, cluster_id=identity, lease_s=60, fresh=True, identity=identity)

    assert not (await ask(1, STAGING)).leads
    assert (await ask(2, PROD)).leads
    await query(hand.dsn, "update shardclock.leadership set lease_until = now() - interval '1 hour'")
    assert not (await ask(1, STAGING)).leads
    # And the former leader reads that no coordinator leads. It does not read that another coordinator of its cluster
    # leads.
    await query(hand.dsn, "update shardclock.identity set name = 'other'")
    held = await ask(2, PROD)
    assert (held.leads, held.leader) == (False, None)


async def test_a_holder_fires_timers_that_it_leased_before_the_hold(hand: HolderClient) -> None:
    await start(hand, PROD)
    await add_timers(hand.dsn, 3)
    leased = (await hand.take()).claimed
    await query(hand.dsn, "update shardclock.identity set name = 'other'")
    await add_timers(hand.dsn, 2)

    assert len((await hand.fire(leased)).timer_keys) == 3
    assert await fires(hand) == 0


# Release


@pytest.mark.parametrize(("identity", "name"), [(STAGING, STAGING), (UNNAMED, None)])
async def test_a_released_database_fires_and_belongs_to_another_installation(
    copied: HolderClient, identity: str, name: str | None
) -> None:
    await start(copied, identity)

    assert await release(copied.session, identity)

    assert await belongs(copied) == (name, True)
    assert await fires(copied) == 5
    assert not await release(copied.session, identity), "there is nothing to release"


async def test_a_database_that_is_not_on_hold_is_not_given_to_another_installation(hand: HolderClient) -> None:
    assert not await release(hand.session, STAGING), "it has no owner yet: the first cluster adopts it"
    await hand.value("select shardclock.adopt('')::text")
    assert not await release(hand.session, STAGING), "its owner has no name"

    assert await belongs(hand) == (None, True)


async def test_a_database_on_which_another_cluster_fires_is_not_released(hand: HolderClient) -> None:
    await start(hand, PROD, holder=OTHER)
    await start(hand, STAGING)

    assert not await release(hand.session, STAGING)
    assert await belongs(hand) == (PROD, True)

    await query(hand.dsn, "update shardclock.beats set seen_at = now() - interval '6 s' where holder = $1", OTHER)
    assert await release(hand.session, STAGING), "it is silent"


async def test_a_copy_without_its_sequences_continues_after_the_recorded_positions(copied: HolderClient) -> None:
    # The state after logical replication: the rows were copied, the sequence was not.
    await query(copied.dsn, "select shardclock.cancel_timers(array(select timer_key from shardclock.timers limit 1))")
    await query(copied.dsn, "insert into shardclock.consumers (group_name, position) values ('billing', 40)")
    await query(copied.dsn, "alter sequence shardclock.position_seq restart")

    assert await release(copied.session, STAGING)

    (key,) = await add_timers(copied.dsn, 1)
    await copied.cancel(timer_key=key)
    assert [record.timer_key for record in await read_log(copied.session, 40)] == [key]


# The schema


@pytest.mark.shared_database
async def test_the_check_of_the_identity_reads_one_row(each_dsn: str) -> None:
    ask = (
        "explain (analyze, buffers, timing off, format json)"
        " select shardclock.hold_reason(case when i > 0 then 'prod' end) from generate_series(1, {}) i"
    )
    async with Session(each_dsn, application="test", timeout_s=BOUND_S) as session, session.connection() as db:
        await db.execute("select shardclock.adopt('prod')")
        pages = []
        # Only the first call reads the catalog. The next calls show the cost that each claim pays.
        for calls in (1, 1, 1_001):
            plan = json.loads(await db.fetchval(ask.format(calls)))[0]["Plan"]
            pages.append(plan["Shared Hit Blocks"] + plan["Shared Read Blocks"])
        databases = await db.fetchval("select pg_relation_size('pg_database') / current_setting('block_size')::int")

    # One row of identity, by its index, and the server's list of databases.
    assert pages[2] - pages[1] <= 1_000 * (2 + databases)


async def test_the_database_has_one_identity_row(hand: HolderClient) -> None:
    with pytest.raises(asyncpg.UniqueViolationError):
        await query(hand.dsn, "insert into shardclock.identity default values")
