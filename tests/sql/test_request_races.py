"""Prove that two simultaneous copies of a request do the work once, in any interleaving."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta

import pytest

from shardclock_server.sql.requests.requests import IdempotentRequest, InFlight, begin_requests, store_requests
from shardclock_server.sql.session import Session
from tests.support.factories import BOUND_S, query, value
from tests.support.requests import CREATED, answer, begin, request
from tests.support.sql_client import session

ORDER = request()
CLIENTS, ORDERS = 6, 25
# Two keys with the same lock.
ALIKE = """
    select min(n)::text, max(n)::text
    from generate_series(1, 400000) n
    group by hashtext('acme' || e'\\n' || n)
    having count(*) > 1
    limit 1
"""


class RolledBack(Exception):
    """Raised by the caller's own work."""


@pytest.fixture
async def one(each_dsn: str) -> AsyncIterator[Session]:
    async with session(each_dsn, "gateway") as client:
        yield client


@pytest.fixture
async def other(each_dsn: str) -> AsyncIterator[Session]:
    async with session(each_dsn, "gateway") as client:
        yield client


async def test_the_second_caller_gets_in_flight_until_the_first_commits_and_then_its_answer(
    one: Session, other: Session
) -> None:
    async with one.transaction() as first:
        assert await begin_requests(first, [ORDER]) == [None]
        assert await begin(other, ORDER) == [InFlight()]
        await store_requests(first, [(ORDER, CREATED)])
        assert await begin(other, ORDER) == [InFlight()], "the stored answer is not committed yet"

    assert await begin(other, ORDER) == [CREATED]


async def test_the_second_caller_begins_it_anew_after_the_first_has_rolled_back(one: Session, other: Session) -> None:
    async def fail() -> None:
        async with one.transaction() as first:
            assert await begin_requests(first, [ORDER]) == [None]
            await store_requests(first, [(ORDER, CREATED)])
            assert await begin(other, ORDER) == [InFlight()]
            raise RolledBack

    with pytest.raises(RolledBack):
        await fail()

    assert await begin(other, ORDER) == [None]


async def test_the_second_caller_begins_it_anew_after_the_first_has_died(
    each_dsn: str, one: Session, other: Session
) -> None:
    async with one.connection() as first:
        await first.execute("begin")
        assert await begin_requests(first, [ORDER]) == [None]
        pid = first.get_server_pid()
    assert await begin(other, ORDER) == [InFlight()]

    assert await value(each_dsn, "select pg_terminate_backend($1, 10000)", pid)

    assert await begin(other, ORDER) == [None]


async def test_a_transaction_that_began_before_the_commit_finds_the_answer_after_it(
    one: Session, other: Session
) -> None:
    async with other.transaction() as second:
        assert await begin_requests(second, [request("before")]) == [None]
        await answer(one, ORDER)

        assert await begin_requests(second, [ORDER]) == [CREATED]


async def test_the_present_clock_decides_about_old_answers_and_not_the_begin_of_the_transaction(
    one: Session, other: Session
) -> None:
    async with other.transaction() as second:
        began_at = await second.fetchval("select now()")
        await answer(one, ORDER, now=began_at - timedelta(days=1) + timedelta(microseconds=1))

        assert await begin_requests(second, [ORDER]) == [None], "it was good when the transaction began"


async def test_a_committed_answer_is_returned_though_another_caller_asks_at_the_same_time(
    one: Session, other: Session
) -> None:
    await answer(one, ORDER)
    async with one.transaction() as first:
        assert await begin_requests(first, [ORDER]) == [CREATED]

        assert await begin(other, ORDER) == [CREATED]


async def test_a_request_under_way_blocks_no_other_request(one: Session, other: Session) -> None:
    async with one.transaction() as first:
        assert await begin_requests(first, [ORDER]) == [None]

        assert await begin(other, request("order-8"), ORDER) == [None, InFlight()]


async def test_a_request_whose_lock_is_shared_with_another_is_in_flight_meanwhile(
    each_dsn: str, one: Session, other: Session
) -> None:
    ((first_key, second_key),) = await query(each_dsn, ALIKE)
    first, second = request(first_key), request(second_key)
    async with one.transaction() as connection:
        assert await begin_requests(connection, [first]) == [None]
        assert await begin(other, second) == [InFlight()]

    assert await begin(other, first, second) == [None, None], "one transaction may do both"


async def test_many_callers_of_the_same_requests_do_each_of_them_once(each_dsn: str) -> None:
    wanted = [request(f"order-{number}") for number in range(ORDERS)]

    async def client() -> None:
        async with session(each_dsn, "gateway") as mine:
            left = wanted
            while left:
                left = [it for it in left if not await is_answered(mine, it)]

    async with asyncio.timeout(BOUND_S):
        await asyncio.gather(*(client() for _ in range(CLIENTS)))

    assert await value(each_dsn, "select count(*) from shardclock.timers") == ORDERS


async def is_answered(mine: Session, wanted: IdempotentRequest) -> bool:
    """Do a request, or get its stored answer; return False if another caller executes this request."""
    async with mine.transaction() as connection:
        (begun,) = await begin_requests(connection, [wanted])
        if begun is None:
            await connection.execute("select shardclock.schedule_timer(delay => 'PT1H')")
            await store_requests(connection, [(wanted, CREATED)])
        return begun != InFlight()
