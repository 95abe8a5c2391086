"""Each call over a socket gets its own answer, or an error if the process is lost."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from shardclock.executor.call_server import CallServer
from shardclock.executor.frames import IS_ALIVE, Messages, framed
from shardclock_server.workers import call_socket
from shardclock_server.workers.call_socket import CallSocket, NotSent, SocketLost, connected
from tests.support.waiting import eventually

WITHIN_S = 10.0


class Answers:
    """A process that answers when the test permits."""

    def __init__(self) -> None:
        self.asked: dict[bytes, asyncio.Event] = {}
        self.began = asyncio.Condition()

    async def __call__(self, body: bytes) -> bytes:
        self.asked[body] = asyncio.Event()
        async with self.began:
            self.began.notify_all()
        await self.asked[body].wait()
        return body.upper()

    async def has_begun(self, *bodies: bytes) -> None:
        async with self.began:
            await self.began.wait_for(lambda: self.asked.keys() >= {*bodies})


async def echo(body: bytes) -> bytes:
    return body


@asynccontextmanager
async def served(answer: Callable[[bytes], Awaitable[bytes]]) -> AsyncIterator[CallSocket]:
    server = CallServer(answer)
    ours = await connected(await server.listen())
    assert ours is not None
    async with asyncio.timeout(WITHIN_S):
        yield ours
    ours.close()
    server.close()


async def test_each_call_gets_its_own_answer_in_any_order() -> None:
    answers = Answers()
    async with served(answers) as ours, asyncio.TaskGroup() as group:
        first, second = group.create_task(ours.request(b"first")), group.create_task(ours.request(b"second"))
        await answers.has_begun(b"first", b"second")
        answers.asked[b"second"].set()
        assert await second == b"SECOND"
        assert not first.done()
        answers.asked[b"first"].set()
        assert await first == b"FIRST"


async def test_a_process_shows_that_it_is_alive_without_a_call() -> None:
    asked: list[bytes] = []

    async def answer(body: bytes) -> bytes:
        asked.append(body)
        return body

    async with served(answer) as ours:
        assert await ours.request(IS_ALIVE) == IS_ALIVE
    assert asked == []


@pytest.mark.parametrize("size", [1, 10_000_000])
async def test_an_answer_has_any_size(size: int) -> None:
    body = b"x" * size
    async with served(echo) as ours:
        assert await ours.request(body) == body


async def test_messages_arrive_complete_however_they_are_divided_into_packets() -> None:
    taken: list[tuple[int, bytes]] = []

    class Taking(Messages):
        def take(self, number: int, body: bytes) -> None:
            taken.append((number, body))

    sent = [(1, b"one"), (2, b""), (3, b"three")]
    stream = b"".join(framed(number, body) for number, body in sent)
    for size in (1, 5, len(stream)):
        taken.clear()
        messages = Taking()
        for first in range(0, len(stream), size):
            messages.data_received(stream[first : first + size])
        assert taken == sent, size


class Unshown(Exception):
    """An error without a text."""

    def __str__(self) -> str:
        raise RuntimeError


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (ValueError("no"), "ValueError: no"),
        (ValueError("half \ud800"), "half "),
        (Unshown(), "can't be shown"),
        (asyncio.CancelledError(), "CancelledError"),
    ],
)
async def test_only_the_call_that_the_process_can_t_answer_fails(error: BaseException, told: str) -> None:
    async def fail(body: bytes) -> bytes:
        if body == b"bad":
            raise error
        return body

    async with served(fail) as ours:
        with pytest.raises(SocketLost, match=told):
            await ours.request(b"bad")
        assert await ours.request(b"good") == b"good"


async def test_an_answer_to_a_canceled_call_is_dropped() -> None:
    answers = Answers()
    async with served(answers) as ours:
        slow = asyncio.create_task(ours.request(b"slow"))
        await answers.has_begun(b"slow")
        slow.cancel()
        await asyncio.wait([slow])
        answers.asked[b"slow"].set()
        next_one = asyncio.create_task(ours.request(b"next"))
        await answers.has_begun(b"next")
        answers.asked[b"next"].set()
        assert await next_one == b"NEXT"


async def test_a_process_accepts_only_the_first_connection() -> None:
    address = await CallServer(echo).listen()
    first = await connected(address)
    assert first is not None
    assert await first.request(b"x") == b"x"
    assert await connected(address) is None
    first.close()


@pytest.mark.parametrize("address", [None, "shardclock-on-another-host"])
async def test_without_a_process_on_this_host_there_is_no_socket(address: str | None) -> None:
    assert await connected(address) is None


async def test_a_connection_of_another_user_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    server = CallServer(echo)
    address = await server.listen()
    with monkeypatch.context() as other:
        other.setattr(os, "getuid", lambda: 65_000)
        assert await connected(address) is None
    ours = await connected(address)
    assert ours is not None, "it waits for its own worker"
    ours.close()


async def test_without_a_greeting_there_is_no_socket(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(call_socket, "GREETED_S", 0.05)
    silent = socket.socket(socket.AF_UNIX)
    with silent:
        silent.bind("\0shardclock-silent")
        silent.listen()
        assert await connected("shardclock-silent") is None


async def test_without_descriptors_there_is_no_socket(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: int) -> socket.socket:
        raise OSError(24, "Too many open files")

    server = CallServer(echo)
    address = await server.listen()
    with monkeypatch.context() as full:
        full.setattr(socket, "socket", refuse)
        assert await connected(address) is None
        assert await CallServer(echo).listen() is None
    server.close()


async def test_unsent_bytes_do_not_keep_the_socket_open_after_the_end_of_a_process() -> None:
    """A process with a blocked loop does not read, and its forked child keeps the process's end of the socket open."""
    here, there = socket.socketpair()
    here.setblocking(False)
    with there:
        _, ours = await asyncio.get_running_loop().create_unix_connection(CallSocket, sock=here)
        call = asyncio.create_task(ours.request(b"x" * 10_000_000))
        await asyncio.sleep(0)

        ours.fail_calls(SocketLost("it hangs"))

        with pytest.raises(SocketLost):
            await call
        await eventually(lambda: here.fileno() == -1, within_s=WITHIN_S)


async def test_open_calls_fail_with_the_end_of_the_process_and_later_ones_are_not_sent() -> None:
    answers = Answers()
    async with served(answers) as ours:
        calls = [asyncio.create_task(ours.request(body)) for body in (b"one", b"two")]
        await answers.has_begun(b"one", b"two")
        ours.fail_calls(SocketLost("it ran out of memory"))
        ours.fail_calls(SocketLost("and later nobody asks why"))
        for call in calls:
            with pytest.raises(SocketLost, match="out of memory"):
                await call
        with pytest.raises(NotSent):
            await ours.request(b"three")


async def test_a_closed_socket_does_not_reveal_the_cause_of_the_end() -> None:
    answers = Answers()
    server = CallServer(answers)
    ours = await connected(await server.listen())
    assert ours is not None
    call = asyncio.create_task(ours.request(b"one"))
    await answers.has_begun(b"one")

    ours.connection_lost(None)
    await asyncio.sleep(0)
    assert not call.done(), "Ray says it a moment later"
    ours.fail_calls(SocketLost("SIGSEGV"))

    with pytest.raises(SocketLost, match="SIGSEGV"):
        await call
