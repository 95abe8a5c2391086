"""Prove that a trap stops a statement before, during or after its execution, and that a lost answer undoes nothing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from chaos.faults.engines import STEP
from chaos.proxy import Moment, Proxy, Select, Trap
from shardclock_server.sql.claims.claim import leased_by
from shardclock_server.sql.session import StoreUnavailable
from shardclock_server.sql.statements import statement
from tests.support.factories import BOUND_S, HolderClient, add_holder, add_timers, intents, query, value
from tests.support.proxied import BROKEN_OFF, HOLDER, catches, connected, during, holding, in_time, named, round_trips
from tests.support.waiting import eventually

UNLOCKED = "select timer_key from shardclock.timers for update skip locked"
PENDING = "select count(*) from shardclock.timers"


@asynccontextmanager
async def trapped(proxy: Proxy, select: Select, name: str, moment: Moment) -> AsyncIterator[Trap]:
    """Set a trap during a block; after the block, remove the trap if it still exists."""
    trap = proxy.trap(select, name, moment, spring=lambda _: None)
    try:
        yield trap
    finally:
        if not trap.released.is_set():
            proxy.lift(trap)


def hands_of(proxy: Proxy) -> Select:
    """Select the links that holders have now; links that are opened later are not selected."""
    links = proxy.links(named("test"))
    return lambda link: link in links


async def test_a_lost_answer_to_a_firing_leaves_it_fired_once(proxy: Proxy, dsn: str, through: str) -> None:
    async with holding(dsn, through, 3) as (hand, timers):
        proxy.lose_reply(named("test"), "fire_due")
        with pytest.raises(StoreUnavailable):
            await hand.fire(timers)

        assert await intents(dsn) == {(timer.timer_key, "TRIGGERED"): 1 for timer in timers}
        assert (await hand.fire(timers)).timer_keys == set(), "it asks again on a new connection"


async def test_a_lost_answer_to_a_claim_leaves_the_lease(proxy: Proxy, dsn: str, through: str) -> None:
    await add_holder(dsn, HOLDER)
    keys = await add_timers(dsn, 3)

    async with HolderClient(through, HOLDER) as hand:
        proxy.lose_reply(named("test"), "claim_due")
        with pytest.raises(StoreUnavailable):
            await hand.take()

        held = await leased_by(hand.session, HOLDER, horizon_s=2.0, lease_s=10.0)
        assert [timer.timer_key for timer in held] == keys


async def test_a_trap_before_a_firing_withholds_the_statement_from_the_server(
    proxy: Proxy, dsn: str, through: str
) -> None:
    async with holding(dsn, through) as (hand, timers), trapped(proxy, named("test"), "fire_due", "before") as trap:
        work = asyncio.create_task(hand.fire(timers))
        await catches(trap)

        assert [row["timer_key"] for row in await query(dsn, UNLOCKED)] == [timers[0].timer_key]
        assert await value(dsn, "select state from pg_stat_activity where pid = $1", hand.pid) == "idle"
        assert not work.done()

        proxy.lift(trap)
        assert (await in_time(work)).timer_keys == {timers[0].timer_key}
        assert await value(dsn, PENDING) == 0


async def test_a_trap_inside_a_firing_keeps_its_row_locked_and_unfired(proxy: Proxy, dsn: str, through: str) -> None:
    async with holding(dsn, through) as (hand, timers), trapped(proxy, named("test"), "fire_due", "inside") as trap:
        work = asyncio.create_task(hand.fire(timers))
        await catches(trap)

        async def is_skipped() -> bool:
            return not await query(dsn, UNLOCKED)

        await eventually(is_skipped)
        assert await value(dsn, PENDING) == 1
        assert not await intents(dsn)
        assert not work.done()

        proxy.lift(trap)
        assert (await in_time(work)).timer_keys == {timers[0].timer_key}
        assert await intents(dsn) == {(timers[0].timer_key, "TRIGGERED"): 1}


async def test_a_firing_whose_connection_is_cut_inside_the_statement_fires_nothing(
    proxy: Proxy, dsn: str, through: str
) -> None:
    async with holding(dsn, through) as (hand, timers), trapped(proxy, named("test"), "fire_due", "inside") as trap:
        work = asyncio.create_task(hand.fire(timers))
        link = await catches(trap)
        link.close()
        with pytest.raises(StoreUnavailable):
            await in_time(work)

        async def is_free() -> bool:
            return bool(await query(dsn, UNLOCKED))

        await eventually(is_free)
        assert not await intents(dsn)


async def test_a_trap_after_a_firing_withholds_the_answer(proxy: Proxy, dsn: str, through: str) -> None:
    async with holding(dsn, through) as (hand, timers), trapped(proxy, named("test"), "fire_due", "after") as trap:
        work = asyncio.create_task(hand.fire(timers))
        await catches(trap)

        assert await intents(dsn) == {(timers[0].timer_key, "TRIGGERED"): 1}
        assert not work.done()

        proxy.lift(trap)
        assert (await in_time(work)).timer_keys == {timers[0].timer_key}


async def test_a_trap_springs_once_on_the_first_matching_statement(proxy: Proxy, dsn: str, through: str) -> None:
    sprung: list[str] = []
    async with holding(dsn, through, 2) as (hand, (one, other)):
        trap = proxy.trap(named("test"), "fire_due", "before", spring=lambda link: sprung.append(link.application))
        await hand.value("select 1")
        await hand.take()
        assert not sprung, "no other client's statement, and no other statement"

        work = asyncio.create_task(hand.fire([one]))
        await catches(trap)
        async with HolderClient(through, HOLDER) as second:
            assert (await second.fire([other])).timer_keys == {other.timer_key}, "the trap is full"
        proxy.lift(trap)
        await in_time(work)

    assert sprung == ["test"]


async def test_a_trap_does_not_stop_other_connections(proxy: Proxy, dsn: str, through: str) -> None:
    async with holding(dsn, through, 2) as (hand, (one, other)):
        mine = hands_of(proxy)
        async with HolderClient(through, HOLDER) as second, trapped(proxy, mine, "fire_due", "inside") as trap:
            assert (await second.fire([other])).timer_keys == {other.timer_key}
            assert not trap.caught.done()

            work = asyncio.create_task(hand.fire([one]))
            await catches(trap)
            await second.take()
            proxy.lift(trap)
            await in_time(work)


async def test_a_statement_is_known_by_its_first_line(proxy: Proxy, through: str) -> None:
    text = statement("claim_due").text.partition("\n")[0] + "\nselect 1"

    async with connected(through) as mine, trapped(proxy, named("mine"), "claim_due", "after") as trap:
        work = asyncio.create_task(mine.fetchval(text))
        await catches(trap)
        proxy.lift(trap)
        assert await in_time(work) == 1


async def test_a_trap_does_not_stop_another_statement_with_the_same_prepared_name(proxy: Proxy, through: str) -> None:
    text = statement("claim_due").text.partition("\n")[0] + "\nselect 1"

    async with connected(through, statement_cache_size=0) as mine:  # each statement uses the unnamed prepared statement
        assert await mine.fetchval(text) == 1
        proxy.lose_reply(named("mine"), "claim_due")
        await round_trips(mine)
        with pytest.raises(BROKEN_OFF):
            await mine.fetchval(text)


async def test_a_closing_proxy_also_closes_held_connections(proxy: Proxy, dsn: str, through: str) -> None:
    async with holding(dsn, through) as (hand, timers), connected(through) as mine:
        trap = proxy.trap(named("test"), "fire_due", "inside", spring=lambda _: None)
        work = asyncio.create_task(hand.fire(timers))
        await catches(trap)
        async with during(proxy.half_open(named("mine"), for_s=BOUND_S)):
            async with asyncio.timeout(BOUND_S):
                await proxy.close()
            with pytest.raises(StoreUnavailable):
                await in_time(work)
            with pytest.raises(BROKEN_OFF):
                await mine.fetchval("select 1", timeout=BOUND_S)
    with pytest.raises(ConnectionRefusedError):
        async with connected(through):
            pass


@pytest.mark.parametrize("name", ["claim_due", "fire_due", STEP, "commit"])
async def test_only_watched_statements_can_be_trapped_or_lose_a_reply(proxy: Proxy, name: str) -> None:
    proxy.lift(proxy.trap(named("test"), name, "before", spring=lambda _: None))
    with pytest.raises(ValueError, match=f"statement {name}s is not watched"):
        proxy.trap(named("test"), f"{name}s", "before", spring=lambda _: None)
    with pytest.raises(ValueError, match=f"statement {name}s is not watched"):
        proxy.lose_reply(named("test"), f"{name}s")
