"""The network between the cluster and Postgres passes everything on, and breaks what it was told to and no more."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlsplit

import asyncpg
import pytest

from sql.claims import held_by
from sql.session import StoreUnavailable
from sql.statements import statement
from tests.chaos.proxy import Link, Moment, Proxy, Select, Trap
from tests.store import BOUND_S, Hand, add_holder, add_timers, intents, query, until_blocked, value
from tests.waiting import eventually
from timers.model import ClaimedTimer

HOLDER, OTHER_HOLDER = 11, 12
BROKEN_OFF = (OSError, asyncpg.PostgresConnectionError, asyncpg.InterfaceError)
UNLOCKED = "select timer_key from shardclock.timers for update skip locked"
PENDING = "select count(*) from shardclock.timers"


@pytest.fixture
async def proxy(dsn: str) -> AsyncIterator[Proxy]:
    """Stand before the database of the test."""
    proxy = Proxy.before(dsn)
    await proxy.start()
    try:
        yield proxy
    finally:
        await proxy.close()


@pytest.fixture
def through(proxy: Proxy, dsn: str) -> str:
    """Name the same database, on the other side of the proxy."""
    return f"postgresql://postgres@127.0.0.1:{proxy.port}{urlsplit(dsn).path}"


@asynccontextmanager
async def connected(dsn: str, name: str = "mine", **more: Any) -> AsyncIterator[asyncpg.Connection]:
    connection = await asyncpg.connect(
        dsn, timeout=BOUND_S, command_timeout=BOUND_S, server_settings={"application_name": name}, **more
    )
    try:
        yield connection
    finally:
        connection.terminate()


@asynccontextmanager
async def during(fault: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """Keep a fault up for as long as the block lasts."""
    task = asyncio.create_task(fault)
    await asyncio.sleep(0)  # its turn: it begins
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@asynccontextmanager
async def trapped(proxy: Proxy, select: Select, name: str, moment: Moment) -> AsyncIterator[Trap]:
    """Lay a trap, and lift it at the end at the latest."""
    trap = proxy.trap(select, name, moment, spring=lambda _: None)
    try:
        yield trap
    finally:
        if not trap.released.is_set():
            proxy.lift(trap)


async def catches(trap: Trap) -> Link:
    async with asyncio.timeout(BOUND_S):
        return await asyncio.shield(trap.caught)


async def in_time(work: asyncio.Task[Any]) -> Any:
    async with asyncio.timeout(BOUND_S):
        return await work


async def round_trips(connection: asyncpg.Connection, count: int = 20) -> None:
    """Give everybody else the time that so many questions and answers take."""
    async with asyncio.timeout(BOUND_S):
        for number in range(count):
            assert await connection.fetchval("select $1::integer", number) == number


async def sessions_of(dsn: str, name: str) -> int:
    return int(await value(dsn, "select count(*) from pg_stat_activity where application_name = $1", name))


def named(name: str) -> Select:
    return lambda link: link.application == name


def hands_of(proxy: Proxy) -> Select:
    """Select the links that hands have now, and none that is opened later."""
    links = proxy.links(named("test"))
    return lambda link: link in links


@asynccontextmanager
async def holding(dsn: str, through: str, count: int = 1) -> AsyncIterator[tuple[Hand, list[ClaimedTimer]]]:
    """Lease timers that are due to a hand beyond the proxy."""
    await add_holder(dsn, HOLDER)
    await add_timers(dsn, count)
    async with Hand(through, HOLDER) as hand:
        yield hand, (await hand.take()).claimed


async def test_questions_and_answers_of_any_size_pass(through: str) -> None:
    async with connected(through) as mine:
        numbers = [row[0] for row in await mine.fetch("select generate_series(1, 100000)")]

        assert numbers == list(range(1, 100_001))
        assert await mine.fetchval("select repeat('ä', 4000000)") == "ä" * 4_000_000
        assert await mine.fetchval("select length($1::text)", "x" * 4_000_000) == 4_000_000


async def test_many_connections_at_once_do_not_mix(proxy: Proxy, through: str) -> None:
    async def talk(number: int) -> None:
        async with connected(through, f"talk {number}") as mine:
            for turn in range(30):
                said = f"{number} {turn}" * (1 + turn * 100)
                assert await mine.fetchval("select $1::text", said) == said
            assert [link.application for link in proxy.links(named(f"talk {number}"))] == [f"talk {number}"]

    await asyncio.gather(*(talk(number) for number in range(12)))


async def test_a_connection_that_has_gone_is_forgotten(proxy: Proxy, dsn: str, through: str) -> None:
    async with connected(through):
        assert len(proxy.links(named("mine"))) == 1

    await eventually(lambda: not proxy.links(named("mine")))
    await eventually(lambda: _none_of(dsn, "mine"))


async def _none_of(dsn: str, name: str) -> bool:
    return await sessions_of(dsn, name) == 0


async def test_a_cut_breaks_connections_and_refuses_new_ones_until_it_is_over(proxy: Proxy, through: str) -> None:
    async with connected(through) as mine, connected(through, "other") as other:
        async with during(proxy.cut(named("mine"), for_s=BOUND_S)):
            with pytest.raises(BROKEN_OFF):
                await mine.fetchval("select 1")
            with pytest.raises(BROKEN_OFF):
                async with connected(through):
                    pass
            await round_trips(other)
            async with connected(through, "other") as another:
                await round_trips(another)

        async with connected(through) as again:
            await round_trips(again)


async def test_a_cut_in_the_middle_of_a_statement_is_noticed_at_once(proxy: Proxy, through: str) -> None:
    async with connected(through) as mine, connected(through, "other") as other:
        await other.execute("select pg_advisory_lock(7)")
        pid = await mine.fetchval("select pg_backend_pid()")
        work = asyncio.create_task(mine.fetchval("select pg_advisory_lock(7)"))
        await until_blocked(through, pid, work)

        async with during(proxy.cut(named("mine"), for_s=BOUND_S)):
            with pytest.raises(BROKEN_OFF):
                await in_time(work)


async def test_a_fault_is_over_when_its_time_is(proxy: Proxy, through: str) -> None:
    async with connected(through) as mine:
        await proxy.half_open(named("mine"), for_s=0.05)
        await proxy.slow(named("mine"), delay_s=BOUND_S, for_s=0.05)
        await round_trips(mine)

    await proxy.cut(named("mine"), for_s=0.05)
    async with connected(through) as mine:
        await round_trips(mine)


async def test_half_open_a_question_does_not_arrive_until_it_is_over(proxy: Proxy, dsn: str, through: str) -> None:
    async with connected(through) as mine, connected(through, "other") as other:
        await mine.execute("create sequence asked")
        async with during(proxy.half_open(named("mine"), for_s=BOUND_S)):
            work = asyncio.create_task(mine.fetchval("select nextval('asked')"))
            late = asyncio.create_task(_first_word(through))
            await round_trips(other)

            assert not work.done()
            assert not late.done(), "a new connection fares alike"
            assert not await value(dsn, "select is_called from asked")

        assert await in_time(work) == 1
        assert await in_time(late) == 1


async def _first_word(dsn: str) -> Any:
    async with connected(dsn) as connection:
        return await connection.fetchval("select 1")


async def test_half_open_an_answer_does_not_arrive_until_it_is_over(proxy: Proxy, through: str) -> None:
    async with connected(through) as mine, connected(through, "other") as other:
        await other.execute("select pg_advisory_lock(7)")
        pid = await mine.fetchval("select pg_backend_pid()")
        work = asyncio.create_task(mine.fetchval("select 7 from pg_advisory_lock(7)"))
        await until_blocked(through, pid, work)

        async with during(proxy.half_open(named("mine"), for_s=BOUND_S)):
            await other.execute("select pg_advisory_unlock(7)")
            idle = "select state = 'idle' from pg_stat_activity where pid = $1"
            await eventually(lambda: other.fetchval(idle, pid))
            await round_trips(other)
            assert not work.done()

        assert await in_time(work) == 7


async def test_half_open_the_server_does_not_hear_that_its_client_has_gone(
    proxy: Proxy, dsn: str, through: str
) -> None:
    async with connected(through), connected(through, "other") as other:
        async with during(proxy.half_open(named("mine"), for_s=BOUND_S)):
            (link,) = proxy.links(named("mine"))
            link.client.transport.abort()  # without a word, as from one that was killed
            await round_trips(other)

            assert await sessions_of(dsn, "mine") == 1

        await eventually(lambda: _none_of(dsn, "mine"))


async def test_of_two_half_open_times_the_longer_one_counts(proxy: Proxy, through: str) -> None:
    async with connected(through) as mine, connected(through, "other") as other:
        async with during(proxy.half_open(named("mine"), for_s=BOUND_S)):
            await proxy.half_open(named("mine"), for_s=0.05)
            work = asyncio.create_task(mine.fetchval("select 1"))
            await round_trips(other)
            assert not work.done()

        assert await in_time(work) == 1


async def test_slow_holds_up_both_directions(proxy: Proxy, through: str) -> None:
    async with connected(through) as mine:
        loop = asyncio.get_running_loop()
        async with during(proxy.slow(named("mine"), delay_s=0.1, for_s=BOUND_S)):
            began_at = loop.time()
            await mine.execute("select 1")
            assert loop.time() - began_at >= 0.2

            began_at = loop.time()
            await _first_word(through)
            assert loop.time() - began_at >= 0.4, "who comes meanwhile is slow from its first word on"


async def test_slow_holds_up_nobody_else(proxy: Proxy, through: str) -> None:
    slow = proxy.slow(named("mine"), delay_s=BOUND_S, for_s=BOUND_S)
    async with connected(through) as mine, connected(through, "other") as other, during(slow):
        work = asyncio.create_task(mine.execute("select 1"))
        await round_trips(other)
        assert not work.done()

        work.cancel()
        await asyncio.gather(work, return_exceptions=True)


async def test_a_lost_answer_to_a_commit_leaves_the_row_and_an_error(proxy: Proxy, dsn: str, through: str) -> None:
    await query(dsn, "create table written (number integer)")

    async with connected(through) as mine, connected(through, "other") as other:
        proxy.lose_reply(named("mine"), "commit")
        with pytest.raises(BROKEN_OFF):
            async with mine.transaction():
                assert await mine.fetchval("insert into written values (1) returning number") == 1
        async with other.transaction():
            await other.execute("insert into written values (2)")

    assert [row["number"] for row in await query(dsn, "select number from written order by number")] == [1, 2]


async def test_only_one_answer_is_lost(proxy: Proxy, through: str) -> None:
    async with connected(through) as mine:
        proxy.lose_reply(named("mine"), "commit")
        await round_trips(mine)
        with pytest.raises(BROKEN_OFF):
            async with mine.transaction():
                pass
    async with connected(through) as mine, mine.transaction():
        await round_trips(mine)


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

    async with Hand(through, HOLDER) as hand:
        proxy.lose_reply(named("test"), "take_due")
        with pytest.raises(StoreUnavailable):
            await hand.take()

        held = await held_by(hand.session, HOLDER, horizon_s=2.0, lease_s=10.0)
        assert [timer.timer_key for timer in held] == keys


async def test_a_trap_before_a_firing_holds_it_back_from_the_server(proxy: Proxy, dsn: str, through: str) -> None:
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


async def test_a_client_broken_off_inside_a_firing_has_fired_nothing(proxy: Proxy, dsn: str, through: str) -> None:
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


async def test_a_trap_after_a_firing_keeps_its_answer_back(proxy: Proxy, dsn: str, through: str) -> None:
    async with holding(dsn, through) as (hand, timers), trapped(proxy, named("test"), "fire_due", "after") as trap:
        work = asyncio.create_task(hand.fire(timers))
        await catches(trap)

        assert await intents(dsn) == {(timers[0].timer_key, "TRIGGERED"): 1}
        assert not work.done()

        proxy.lift(trap)
        assert (await in_time(work)).timer_keys == {timers[0].timer_key}


async def test_a_trap_springs_once_on_the_first_who_walks_in(proxy: Proxy, dsn: str, through: str) -> None:
    sprung: list[str] = []
    async with holding(dsn, through, 2) as (hand, (one, other)):
        trap = proxy.trap(named("test"), "fire_due", "before", spring=lambda link: sprung.append(link.application))
        await hand.value("select 1")
        await hand.take()
        assert not sprung, "nobody else's statement, and no other statement"

        work = asyncio.create_task(hand.fire([one]))
        await catches(trap)
        async with Hand(through, HOLDER) as second:
            assert (await second.fire([other])).timer_keys == {other.timer_key}, "the trap is full"
        proxy.lift(trap)
        await in_time(work)

    assert sprung == ["test"]


async def test_who_is_not_meant_passes_a_trap_by(proxy: Proxy, dsn: str, through: str) -> None:
    async with holding(dsn, through, 2) as (hand, (one, other)):
        mine = hands_of(proxy)
        async with Hand(through, HOLDER) as second, trapped(proxy, mine, "fire_due", "inside") as trap:
            assert (await second.fire([other])).timer_keys == {other.timer_key}
            assert not trap.caught.done()

            work = asyncio.create_task(hand.fire([one]))
            await catches(trap)
            await second.take()
            proxy.lift(trap)
            await in_time(work)


async def test_a_statement_is_known_by_its_first_line(proxy: Proxy, through: str) -> None:
    text = statement("take_due").partition("\n")[0] + "\nselect 1"

    async with connected(through) as mine, trapped(proxy, named("mine"), "take_due", "after") as trap:
        work = asyncio.create_task(mine.fetchval(text))
        await catches(trap)
        proxy.lift(trap)
        assert await in_time(work) == 1


async def test_a_name_that_a_statement_leaves_to_another_is_not_taken_for_it(proxy: Proxy, through: str) -> None:
    text = statement("take_due").partition("\n")[0] + "\nselect 1"

    async with connected(through, statement_cache_size=0) as mine:  # every statement goes by no name
        assert await mine.fetchval(text) == 1
        proxy.lose_reply(named("mine"), "take_due")
        await round_trips(mine)
        with pytest.raises(BROKEN_OFF):
            await mine.fetchval(text)


async def test_a_proxy_that_closes_breaks_off_even_what_it_holds(proxy: Proxy, dsn: str, through: str) -> None:
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
