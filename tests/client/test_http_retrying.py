"""Test that a request is retried only if a retry is safe and may help; the request then has its effect once."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shardclock import AsyncClient
from shardclock.api.errors import Problem
from shardclock.api.fields import New, NewLine
from shardclock.http import InFlight, Line, NoAnswer, Refused, Unavailable
from shardclock.http.retrying import PAUSES, Patience, pause_s_after, retry_after_s_of
from shardclock_server.gateway.combining import Combiner
from shardclock_server.sql.session import StoreUnavailable
from tests.support.factories import BOUND_S, pending_rows, value
from tests.support.gateways import Api
from tests.support.job_runs import declare as declare_jobs
from tests.support.jobs import job_spec
from tests.support.lossy import answering, losing, raw

NOW = datetime(2027, 1, 31, 8, tzinfo=UTC)
HOUR: New = {"delay": "PT1H"}
SCHEDULED = json.dumps({"timer_key": 7, "due_date": "2027-01-31T08:00:00Z", "outcome": "created"})
AWAY = Problem("x", 503, "away", may_be_done=True, may_pass=True)


def problem(kind: str, status: int, **headers: str) -> bytes:
    body = {"type": f"urn:shardclock:problem:{kind}", "title": "", "status": status, "detail": "not now"}
    return raw(status, json.dumps(body), "application/problem+json", **headers)


def pause(
    problem: Problem, *, attempt: int = 1, elapsed_s: float = 0.0, draw: float = 1.0, safe: bool = True
) -> float | None:
    return pause_s_after(problem, Patience(60.0, safe, lambda: draw), attempt=attempt, elapsed_s=elapsed_s)


@given(attempt=st.integers(1, 10_000), draw=st.floats(0, 1))
def test_a_pause_is_random_and_its_maximum_doubles(attempt: int, draw: float) -> None:
    pause_s = pause(AWAY, attempt=attempt, draw=draw)

    assert pause_s is not None
    assert 0 <= pause_s <= min(PAUSES.max_s, PAUSES.first_s * 2 ** min(attempt - 1, 10))
    assert pause(AWAY, attempt=attempt, draw=0.0) == 0.0


def test_a_pause_is_at_least_the_gateways_retry_after() -> None:
    asked = Problem("x", 503, "away", retry_after_s=3.0, may_pass=True)

    assert pause(asked, draw=0.0) == 3.0
    assert pause(asked, draw=1.0) == 3.0 + PAUSES.first_s
    assert pause(Problem("x", 429, "slowly", retry_after_s=3_600.0, may_pass=True)) is None


def test_permanent_unsafe_and_overdue_retries_are_given_up() -> None:
    assert pause(Problem("x", 422, "no")) is None
    assert pause(AWAY, safe=False) is None
    assert pause(Problem("x", 0, "not reached", may_pass=True), safe=False) == PAUSES.first_s
    assert pause(AWAY, elapsed_s=59.8) == PAUSES.first_s
    assert pause(AWAY, elapsed_s=60.0) is None


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        (None, None), ("0", 0.0), ("7", 7.0), ("-1", None), ("soon", None), ("1.5", None), ("", None), ("٣", None),
        ("Sun, 31 Jan 2027 08:00:30 GMT", 30.0), ("Sun, 31 Jan 2027 07:00:00 GMT", 0.0), ("9" * 400, 999_999_999.0),
    ],
)  # fmt: skip
def test_retry_after_may_be_a_number_of_seconds_or_a_moment(text: str | None, seconds: float | None) -> None:
    assert retry_after_s_of(text, NOW) == seconds


@pytest.mark.parametrize("method", ["schedule", "put", "move", "cancel", "pause", "run"])
async def test_a_change_with_a_lost_answer_is_done_once(dsn: str, gateway: Api, method: str) -> None:
    async with losing(gateway.url, answers=0) as proxy, AsyncClient(proxy.url) as client:
        await client.schedule(due_date=NOW + timedelta(days=3_650), name="n")
        proxy.to_lose = 2
        ask: dict[str, Callable[[], Awaitable[Any]]] = {
            "schedule": lambda: client.schedule(delay="PT1H", name="other"),
            "put": lambda: client.put("other", delay="PT1H"),
            "move": lambda: client.move(name="n", shift="PT1H"),
            "cancel": lambda: client.cancel(name="n"),
            "pause": lambda: client.pause(name="n"),
            "run": lambda: client.run(name="n"),
        }
        answer = await ask[method]()
        assert proxy.lost == 2

    rows = {row["name"]: row for row in await pending_rows(dsn)}
    match method:
        case "schedule" | "put":
            assert answer.outcome == "created"
            assert rows["other"]["timer_key"] == answer.timer_key
        case "move":
            assert rows["n"]["due_date"] == NOW + timedelta(days=3_650, hours=1)
        case "cancel":
            assert await value(dsn, "select count(*) from shardclock.command_log where intent = 'CANCELED'") == 1
        case "pause":
            assert answer.state == "PAUSED"


async def test_a_timer_without_a_name_exists_once_after_a_lost_answer(dsn: str, gateway: Api) -> None:
    async with losing(gateway.url, answers=3) as proxy, AsyncClient(proxy.url) as client:
        made = await client.schedule(delay="PT1H")

    assert proxy.lost == 3
    assert [row["timer_key"] for row in await pending_rows(dsn)] == [made.timer_key]


async def test_a_job_is_not_started_twice_after_a_lost_answer(dsn: str, gateway: Api) -> None:
    await declare_jobs(dsn, job_spec("refresh", every_s=3600.0))
    async with losing(gateway.url, answers=1) as proxy, AsyncClient(proxy.url) as client:
        with pytest.raises(NoAnswer, match="the request may have been executed, so check before you repeat it") as lost:
            await client.run_job("refresh")

    assert lost.value.may_be_done
    assert await value(dsn, "select count(*) from shardclock.timers where name is null") == 1


async def test_lines_with_a_name_that_ignore_conflicts_are_retried_and_others_are_not(dsn: str, gateway: Api) -> None:
    timers: list[New] = [
        {"delay": "PT1H", "name": f"n{n}", "on_conflict": "ignore"} if n % 2 else {"delay": "PT1H"} for n in range(6)
    ]
    async with losing(gateway.url, answers=1) as proxy, AsyncClient(proxy.url) as client:
        lines = [line async for line in client.schedule_many([*timers, HOUR], part_lines=6)]

    assert [line.outcome for line in lines] == ["unknown", "unchanged"] * 3 + ["created"]
    assert "ReadError" in str(lines[0].why) or "RemoteProtocolError" in str(lines[0].why)
    assert len(await pending_rows(dsn)) == 7  # Each timer exists once, even if the answer was lost.


async def test_lines_with_an_idempotency_key_are_retried_and_scheduled_once(dsn: str, gateway: Api) -> None:
    timers: list[NewLine] = [{"delay": "PT1H", "idempotency_key": f"k{n}"} for n in range(4)]
    async with losing(gateway.url, answers=1) as proxy, AsyncClient(proxy.url) as client:
        lines = [line async for line in client.schedule_many(timers)]

    assert [(line.outcome, line.replayed) for line in lines] == [("created", True)] * 4
    assert len(await pending_rows(dsn)) == 4


async def test_lines_without_an_answer_of_postgres_are_retried_if_a_retry_is_safe() -> None:
    timers: list[New] = [HOUR, HOUR, HOUR, {"delay": "PT1H", "name": "n", "on_conflict": "ignore"}]
    said = [(1, "created"), (2, "unknown"), (3, "untried"), (4, "unknown")]
    first = "".join(Line(line=line, outcome=outcome).model_dump_json() + "\n" for line, outcome in said)
    second = "".join(Line(line=line, outcome="created").model_dump_json() + "\n" for line in (1, 2))
    async with answering(raw(200, first), raw(200, second)) as stub, AsyncClient(stub.url) as client:
        lines = [line async for line in client.schedule_many(timers)]

    assert [line.outcome for line in lines] == ["created", "unknown", "created", "created"]
    assert [len(body.splitlines()) for body in stub.bodies] == [4, 2]


async def test_without_a_gateway_the_lines_of_a_part_come_before_the_error() -> None:
    async with answering(b"") as stub:
        nobody = stub.url
    async with AsyncClient(nobody, retry_for="PT0.3S") as client:
        lines = client.schedule_many([HOUR] * 5, part_lines=2)
        assert [(await anext(lines)).outcome for _ in range(2)] == ["untried"] * 2
        with pytest.raises(NoAnswer):
            await anext(lines)


async def test_a_retry_waits_for_the_gateways_retry_after() -> None:
    busy = problem("unavailable", 503, Retry_After="1")
    async with answering(busy, problem("in_flight", 409), raw(429), raw(502), raw(201, SCHEDULED)) as stub:
        begun_s = asyncio.get_running_loop().time()
        async with AsyncClient(stub.url) as client:
            assert (await client.schedule(delay="PT1H")).timer_key == 7

    assert asyncio.get_running_loop().time() - begun_s >= 1.0
    keys = {line for head in stub.heads for line in head.splitlines() if line.lower().startswith("idempotency-key")}
    assert (len(stub.heads), len(keys)) == (5, 1)  # each request had the same key


async def test_each_call_uses_a_new_or_the_given_idempotency_key() -> None:
    async with answering(raw(201, SCHEDULED)) as stub, AsyncClient(stub.url) as client:
        await client.schedule(delay="PT1H")
        await client.schedule(delay="PT1H")
        await client.schedule(delay="PT1H", idempotency_key="mine")
        with pytest.raises(ValueError, match=r"^idempotency_key 'a\\nb' is refused"):
            await client.schedule(delay="PT1H", idempotency_key="a\nb")

    keys = [line.split(": ")[1] for head in stub.heads for line in head.splitlines() if "dempotency-" in line]
    assert len(set(keys)) == 3
    assert keys[2] == "mine"


async def test_a_refused_request_is_not_retried() -> None:
    async with answering(problem("refused", 422)) as stub, AsyncClient(stub.url) as client:
        with pytest.raises(Refused, match=r"^not now$"):
            await client.schedule(delay="soon")
    assert len(stub.heads) == 1


async def test_the_last_problem_is_raised_after_the_timeout() -> None:
    for answer, error in ((problem("unavailable", 503), Unavailable), (problem("in_flight", 409), InFlight)):
        async with answering(answer) as stub, AsyncClient(stub.url, retry_for="PT0.5S") as client:
            with pytest.raises(error, match="the request may have been executed"):
                await client.schedule(delay="PT1H")
        assert len(stub.heads) > 1


async def test_a_request_that_times_out_is_retried(dsn: str, gateway: Api) -> None:
    schedule = Combiner.schedule
    slow = [1.0]

    async def delayed(self: Combiner, *args: object) -> object:
        made = await schedule(self, *args)  # type: ignore[arg-type] # as it was called
        await asyncio.sleep(slow.pop() if slow else 0)
        return made

    with mock.patch.object(Combiner, "schedule", delayed):
        async with asyncio.timeout(BOUND_S), AsyncClient(gateway.url, timeout="PT0.5S") as client:
            made = await client.schedule(delay="PT1H")
    assert [row["timer_key"] for row in await pending_rows(dsn)] == [made.timer_key]


async def test_a_request_succeeds_when_postgres_comes_back(dsn: str, gateway: Api, client: AsyncClient) -> None:
    schedule = Combiner.schedule
    failures = [StoreUnavailable("Postgres is away")]

    async def failing(self: Combiner, *args: object) -> object:
        if failures:
            raise failures.pop()
        return await schedule(self, *args)  # type: ignore[arg-type] # as it was called

    with mock.patch.object(Combiner, "schedule", failing):
        assert (await client.schedule(delay="PT1H")).outcome == "created"
    assert len(await pending_rows(dsn)) == 1
