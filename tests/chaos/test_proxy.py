"""Prove that the proxy between the cluster and Postgres forwards all traffic, except during faults."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from chaos.proxy import Proxy
from tests.support.factories import BOUND_S, query, until_blocked, value
from tests.support.proxied import BROKEN_OFF, connected, during, in_time, named, round_trips
from tests.support.waiting import eventually


async def sessions_of(dsn: str, name: str) -> int:
    return int(await value(dsn, "select count(*) from pg_stat_activity where application_name = $1", name))


async def test_requests_and_replies_of_any_size_pass(through: str) -> None:
    async with connected(through) as mine:
        numbers = [row[0] for row in await mine.fetch("select generate_series(1, 100000)")]

        assert numbers == list(range(1, 100_001))
        assert await mine.fetchval("select repeat('ä', 4000000)") == "ä" * 4_000_000
        assert await mine.fetchval("select length($1::text)", "x" * 4_000_000) == 4_000_000


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


async def test_a_fault_ends_after_its_duration(proxy: Proxy, through: str) -> None:
    async with connected(through) as mine:
        await proxy.half_open(named("mine"), for_s=0.05)
        await proxy.slow(named("mine"), delay_s=BOUND_S, for_s=0.05)
        await round_trips(mine)

    await proxy.cut(named("mine"), for_s=0.05)
    async with connected(through) as mine:
        await round_trips(mine)


async def test_a_half_open_connection_holds_requests_until_its_end(proxy: Proxy, dsn: str, through: str) -> None:
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


async def test_a_half_open_connection_holds_replies_until_its_end(proxy: Proxy, through: str) -> None:
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


async def test_a_half_open_connection_hides_the_client_s_end_from_the_server(
    proxy: Proxy, dsn: str, through: str
) -> None:
    async with connected(through), connected(through, "other") as other:
        async with during(proxy.half_open(named("mine"), for_s=BOUND_S)):
            (link,) = proxy.links(named("mine"))
            link.client.transport.abort()  # The connection ends without a message, as if the client had been killed.
            await round_trips(other)

            assert await sessions_of(dsn, "mine") == 1

        await eventually(lambda: _none_of(dsn, "mine"))


async def test_the_longer_of_two_half_open_times_counts(proxy: Proxy, through: str) -> None:
    async with connected(through) as mine, connected(through, "other") as other:
        async with during(proxy.half_open(named("mine"), for_s=BOUND_S)):
            await proxy.half_open(named("mine"), for_s=0.05)
            work = asyncio.create_task(mine.fetchval("select 1"))
            await round_trips(other)
            assert not work.done()

        assert await in_time(work) == 1


async def test_a_slow_connection_is_delayed_in_both_directions(proxy: Proxy, through: str) -> None:
    async with connected(through) as mine:
        loop = asyncio.get_running_loop()
        async with during(proxy.slow(named("mine"), delay_s=0.1, for_s=BOUND_S)):
            began_at = loop.time()
            await mine.execute("select 1")
            assert loop.time() - began_at >= 0.2

            began_at = loop.time()
            await _first_word(through)
            assert loop.time() - began_at >= 0.4, "a new connection is slow from its first message on"


async def test_a_slow_connection_delays_no_other_connection(proxy: Proxy, through: str) -> None:
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
