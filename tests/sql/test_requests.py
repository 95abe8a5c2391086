"""Prove that equal requests get the same answer for 24 hours, also if they come at the same time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from shardclock_server.sql.idempotency.requests import (
    IdempotentRequest,
    OtherParameters,
    RequestInProgress,
    begin_requests,
    store_requests,
)
from shardclock_server.sql.session import Session, StatementRefused
from tests.support.factories import BOUND_S, query, value
from tests.support.requests import CREATED, OTHERWISE, answer, begin, request
from tests.support.sql_client import session

ORDER = request()
MIDNIGHT = datetime(2026, 3, 2, tzinfo=UTC)
DAY, LEAST = timedelta(days=1), timedelta(microseconds=1)
ROWS = "select count(*) from shardclock.idempotent_requests"


class RolledBack(Exception):
    """An error that the caller's own work raises, so that its transaction is rolled back."""


@pytest.fixture
async def gateway(each_dsn: str) -> AsyncIterator[Session]:
    async with session(each_dsn, "gateway") as client:
        yield client


async def test_the_same_request_gets_the_same_answer(gateway: Session) -> None:
    await answer(gateway, ORDER)

    assert await begin(gateway, ORDER) == [CREATED]
    assert await begin(gateway, ORDER) == [CREATED]


async def test_each_tenant_has_keys_of_its_own(gateway: Session) -> None:
    await answer(gateway, ORDER)

    assert await begin(gateway, replace(ORDER, tenant_id="zoo"), request("order-8")) == [None, None]


async def test_the_same_key_with_other_parameters_is_another_request(gateway: Session) -> None:
    await answer(gateway, ORDER)

    assert await begin(gateway, request(asks="another timer")) == [OtherParameters()]


async def test_a_transaction_that_is_rolled_back_leaves_nothing(each_dsn: str, gateway: Session) -> None:
    async def fail() -> None:
        async with gateway.transaction() as connection:
            assert await begin_requests(connection, [ORDER]) == [None]
            await connection.execute("select shardclock.schedule_timer(delay => 'PT1H')")
            await store_requests(connection, [(ORDER, CREATED)])
            raise RolledBack

    with pytest.raises(RolledBack):
        await fail()

    assert await value(each_dsn, ROWS) == 0
    assert await value(each_dsn, "select count(*) from shardclock.timers") == 0
    assert await begin(gateway, ORDER) == [None]


@pytest.mark.parametrize("later", [timedelta(), timedelta(seconds=1), DAY - timedelta(seconds=2)])
async def test_an_answer_from_before_midnight_is_found(gateway: Session, later: timedelta) -> None:
    await answer(gateway, ORDER, now=MIDNIGHT - timedelta(seconds=1))

    assert await begin(gateway, ORDER, now=MIDNIGHT + later) == [CREATED]


@pytest.mark.parametrize("day", [0, 1, 2])
@pytest.mark.parametrize("at", [timedelta(), timedelta(hours=12), DAY - LEAST])
async def test_an_answer_is_found_for_24_hours_and_no_longer(gateway: Session, day: int, at: timedelta) -> None:
    stored_at = MIDNIGHT + day * DAY + at
    await answer(gateway, ORDER, now=stored_at)

    assert await begin(gateway, ORDER, now=stored_at + DAY - LEAST) == [CREATED]
    assert await begin(gateway, ORDER, now=stored_at + DAY) == [None]
    assert await begin(gateway, request(asks="another timer"), now=stored_at + DAY) == [None]


async def test_an_expired_answer_in_the_same_slot_is_replaced(each_dsn: str, gateway: Session) -> None:
    again, at = request(asks="another timer"), MIDNIGHT + timedelta(hours=1)
    await answer(gateway, ORDER, now=at)

    await answer(gateway, again, now=at + 3 * DAY, stored=OTHERWISE)

    assert await value(each_dsn, ROWS) == 1
    assert await begin(gateway, again, ORDER, now=at + 3 * DAY) == [OTHERWISE, OtherParameters()]


async def test_a_valid_answer_is_not_overwritten(gateway: Session) -> None:
    await answer(gateway, ORDER, now=MIDNIGHT)
    async with gateway.transaction() as connection:
        await store_requests(connection, [(ORDER, OTHERWISE)], now=MIDNIGHT + timedelta(hours=1))

    assert await begin(gateway, ORDER, now=MIDNIGHT + timedelta(hours=1)) == [CREATED]


async def test_after_a_clock_was_set_back_the_newer_of_two_answers_counts(gateway: Session) -> None:
    ahead = MIDNIGHT + timedelta(hours=10)
    await answer(gateway, ORDER, now=ahead)
    await answer(gateway, ORDER, now=ahead - DAY, stored=OTHERWISE)

    assert await begin(gateway, ORDER, now=ahead - timedelta(hours=20)) == [OTHERWISE]
    assert await begin(gateway, ORDER, now=ahead - timedelta(hours=2)) == [CREATED]


async def test_the_first_of_two_equal_requests_in_one_list_is_the_caller_s(gateway: Session) -> None:
    assert await begin(gateway, ORDER, request("order-8"), ORDER) == [None, None, RequestInProgress()]
    await answer(gateway, ORDER)
    assert await begin(gateway, ORDER, request("order-8"), ORDER) == [CREATED, None, CREATED]


async def test_many_requests_begin_at_once_each_with_its_own_outcome(gateway: Session) -> None:
    known = [request(f"known-{number}") for number in range(50)]
    await answer(gateway, *known)
    new = [request(f"new-{number}") for number in range(50)]
    mixed = [it for pair in zip(new, known, strict=True) for it in pair]

    assert await begin(gateway, *mixed) == [None, CREATED] * 50
    assert await begin(gateway) == []


@pytest.mark.parametrize(
    ("wrong", "constraint"),
    [
        ({"idempotency_key": ""}, "idempotency_key_is_1_to_255_characters"),
        ({"idempotency_key": 256 * "a"}, "idempotency_key_is_1_to_255_characters"),
        ({"fingerprint": b"short"}, "fingerprint_is_of_sha256"),
    ],
)
async def test_an_invalid_request_is_not_stored(gateway: Session, wrong: dict[str, object], constraint: str) -> None:
    broken = replace(ORDER, **wrong)  # type: ignore[arg-type]

    with pytest.raises(StatementRefused) as refused:
        await answer(gateway, broken)

    assert refused.value.constraint == constraint


async def test_a_row_is_in_the_slot_of_its_day(each_dsn: str, gateway: Session) -> None:
    for number in range(6):
        await answer(gateway, request(f"{number}"), now=MIDNIGHT + number * DAY)

    rows = await query(each_dsn, "select idempotency_key, slot from shardclock.idempotent_requests")
    day = (MIDNIGHT.date() - datetime(1970, 1, 1, tzinfo=UTC).date()).days
    assert {int(row["idempotency_key"]): row["slot"] for row in rows} == {n: (day + n) % 3 for n in range(6)}


CLIENTS, ORDERS = 6, 25
# These two keys have the same lock.
ALIKE = """
    select min(n)::text, max(n)::text
    from generate_series(1, 400000) n
    group by hashtext('acme' || e'\\n' || n)
    having count(*) > 1
    limit 1
"""


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
        assert await begin(other, ORDER) == [RequestInProgress()]
        await store_requests(first, [(ORDER, CREATED)])
        assert await begin(other, ORDER) == [RequestInProgress()], "the stored answer is not committed yet"

    assert await begin(other, ORDER) == [CREATED]


async def test_the_second_caller_begins_it_anew_after_the_first_has_rolled_back(one: Session, other: Session) -> None:
    async def fail() -> None:
        async with one.transaction() as first:
            assert await begin_requests(first, [ORDER]) == [None]
            await store_requests(first, [(ORDER, CREATED)])
            assert await begin(other, ORDER) == [RequestInProgress()]
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
    assert await begin(other, ORDER) == [RequestInProgress()]

    assert await value(each_dsn, "select pg_terminate_backend($1, 10000)", pid)

    assert await begin(other, ORDER) == [None]


async def test_a_transaction_that_began_before_the_commit_can_read_the_answer_after_the_commit(
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

        assert await begin(other, request("order-8"), ORDER) == [None, RequestInProgress()]


async def test_a_request_whose_lock_is_shared_with_another_is_in_flight_meanwhile(
    each_dsn: str, one: Session, other: Session
) -> None:
    ((first_key, second_key),) = await query(each_dsn, ALIKE)
    first, second = request(first_key), request(second_key)
    async with one.transaction() as connection:
        assert await begin_requests(connection, [first]) == [None]
        assert await begin(other, second) == [RequestInProgress()]

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
        return begun != RequestInProgress()
