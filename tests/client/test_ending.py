"""Test that a client in a handler gives up before the handler's timeout, so that the failure names the gateway."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import AsyncIterator, Callable

import pytest

from shardclock import AsyncClient, Client, Failed, Handler, Job, Run, Timer, call_async, call_plain
from shardclock.calling import call_batch_async
from shardclock.ending import EndingIn, answer_s_left, retry_s_left
from shardclock.testing import run_of, timer
from tests.support.lossy import answering

Declare = Callable[..., Handler]


@pytest.fixture
async def absent() -> str:
    """Return the URL of a gateway that no longer listens."""
    async with answering(b"") as stub:
        return stub.url


@pytest.fixture
async def silent() -> AsyncIterator[str]:
    """Serve the URL of a gateway that accepts a connection and never answers."""

    connected: list[asyncio.StreamWriter] = []

    async def keep_silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connected.append(writer)

    server = await asyncio.start_server(keep_silent, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()[:2]
    yield f"http://{host}:{port}"
    server.close()
    for writer in connected:
        writer.close()
        await writer.wait_closed()


def assert_names_the_gateway(outcome: object, url: str) -> None:
    assert isinstance(outcome, Failed)
    assert outcome.kind == "error"
    assert outcome.reason.startswith(f"NoAnswer: GET /v1/timers/by-name/n got no answer from {url}")


async def test_an_async_handler_without_a_gateway_fails_with_no_answer(declare: Declare, absent: str) -> None:
    async def asks(timer: Timer) -> None:
        async with AsyncClient(absent) as client:
            await client.get(name="n")

    assert_names_the_gateway(await call_async(declare(asks, timeout="PT1S"), timer()), absent)


async def test_a_batch_without_a_gateway_fails_with_no_answer(declare: Declare, absent: str) -> None:
    async def asks(timers: list[Timer]) -> None:
        async with AsyncClient(absent) as client:
            await client.get(name="n")

    outcomes = await call_batch_async(declare(asks, timeout="PT1S", batch=2), [timer(), timer()])
    for outcome in outcomes:
        assert_names_the_gateway(outcome, absent)


async def test_a_handler_whose_gateway_is_silent_fails_with_no_answer(declare: Declare, silent: str) -> None:
    async def asks(timer: Timer) -> None:
        async with AsyncClient(silent) as client:
            await client.get(name="n")

    assert_names_the_gateway(await call_async(declare(asks, timeout="PT2S"), timer()), silent)


async def test_a_plain_handler_without_a_gateway_fails_before_its_timeout(declare: Declare, absent: str) -> None:
    def asks(timer: Timer) -> None:
        with Client(absent) as client:
            client.get(name="n")

    begun_s = time.monotonic()
    assert_names_the_gateway(await asyncio.to_thread(call_plain, declare(asks, timeout="PT1S"), timer()), absent)
    assert time.monotonic() - begun_s < 1.0


async def test_a_run_without_a_gateway_fails_before_its_max_runtime(
    declare_job: Callable[..., Job], absent: str
) -> None:
    async def asks(run: Run) -> None:
        async with AsyncClient(absent) as client:
            await client.get(name="n")

    begun_s = time.monotonic()
    outcome = await asyncio.to_thread(run_of, declare_job(asks, every="PT1H", max_runtime="PT1S"))
    assert_names_the_gateway(outcome, absent)
    assert time.monotonic() - begun_s < 1.0


def test_the_last_second_of_a_call_at_most_its_last_quarter_is_kept_for_the_handlers_own_code() -> None:
    assert retry_s_left() == answer_s_left() == math.inf
    with EndingIn(100.0):
        assert 90.0 < retry_s_left() <= 99.0
        assert 90.0 < answer_s_left() <= 99.0
        with EndingIn(1.0):
            assert retry_s_left() <= 0.75
    with EndingIn(math.inf):
        assert retry_s_left() == math.inf
    assert retry_s_left() == math.inf


def test_in_the_reserve_a_request_may_still_be_answered_but_not_retried(monkeypatch: pytest.MonkeyPatch) -> None:
    with EndingIn(100.0):
        soon_s = time.monotonic() + 99.5
        monkeypatch.setattr("shardclock.ending.monotonic", lambda: soon_s)
        assert retry_s_left() < 0.0 < answer_s_left() <= 0.5


def test_a_task_that_outlives_its_call_retries_without_the_calls_limit() -> None:
    with EndingIn(0.0):
        assert retry_s_left() == answer_s_left() == math.inf
