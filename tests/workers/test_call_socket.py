"""Each call over a socket gets its own answer. No call waits for ever for a process that is lost."""

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
    """Answers each call when the test lets it."""

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


async def test_each_call_gets_its_own_answer_in_whatever_order_they_come() -> None:
    answers = Answers()
    async with served(answers) as ours, asyncio.TaskGroup() as group:
        first, second = group.create_task(ours.ask(b"first")), group.create_task(ours.ask(b"second"))
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
        assert await ours.ask(IS_ALIVE) == IS_ALIVE
    assert asked == []


@pytest.mark.parametrize("size", [1, 10_000_000])
async def test_an_answer_has_any_size(size: int) -> None:
    body = b"x" * size
    async with served(echo) as ours:
        assert await ours.ask(body) == body


async def test_messages_are_whole_however_they_are_cut() -> None:
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
    """Has no text."""

    def __str__(self) -> str:
        """Fail."""
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
async def test_a_call_that_the_process_can_t_answer_fails_alone(error: BaseException, told: str) -> None:
    async def fail(body: bytes) -> bytes:
        if body == b"bad":
            raise error
        return body

    async with served(fail) as ours:
        with pytest.raises(SocketLost, match=told):
            await ours.ask(b"bad")
        assert await ours.ask(b"good") == b"good"


async def test_an_answer_for_which_nobody_waits_any_more_is_dropped() -> None:
    answers = Answers()
    async with served(answers) as ours:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await ours.ask(b"slow")
        answers.asked[b"slow"].set()
        next_one = asyncio.create_task(ours.ask(b"next"))
        await answers.has_begun(b"next")
        answers.asked[b"next"].set()
        assert await next_one == b"NEXT"


async def test_only_the_first_connects() -> None:
    address = await CallServer(echo).listen()
    first = await connected(address)
    assert first is not None
    assert await first.ask(b"x") == b"x"
    assert await connected(address) is None
    first.close()


@pytest.mark.parametrize("address", [None, "shardclock-on-another-host"])
async def test_without_a_process_on_this_host_there_is_no_socket(address: str | None) -> None:
    assert await connected(address) is None


async def test_another_user_s_process_is_sent_away(monkeypatch: pytest.MonkeyPatch) -> None:
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


async def test_what_is_not_sent_keeps_no_socket_open_when_the_process_is_given_up() -> None:
    """A process whose loop is blocked reads nothing, and what it has forked keeps its end open."""
    here, there = socket.socketpair()
    here.setblocking(False)
    with there:
        _, ours = await asyncio.get_running_loop().create_unix_connection(CallSocket, sock=here)
        call = asyncio.create_task(ours.ask(b"x" * 10_000_000))
        await asyncio.sleep(0)

        ours.lose(SocketLost("it hangs"))

        with pytest.raises(SocketLost):
            await call
        await eventually(lambda: here.fileno() == -1, within_s=WITHIN_S)


async def test_calls_under_way_fail_as_the_process_ended_and_no_more_is_sent() -> None:
    answers = Answers()
    async with served(answers) as ours:
        calls = [asyncio.create_task(ours.ask(body)) for body in (b"one", b"two")]
        await answers.has_begun(b"one", b"two")
        ours.lose(SocketLost("it ran out of memory"))
        ours.lose(SocketLost("and later nobody asks why"))
        for call in calls:
            with pytest.raises(SocketLost, match="out of memory"):
                await call
        with pytest.raises(NotSent):
            await ours.ask(b"three")


async def test_a_closed_socket_alone_does_not_say_how_the_process_ended() -> None:
    answers = Answers()
    server = CallServer(answers)
    ours = await connected(await server.listen())
    assert ours is not None
    call = asyncio.create_task(ours.ask(b"one"))
    await answers.has_begun(b"one")

    ours.connection_lost(None)
    await asyncio.sleep(0)
    assert not call.done(), "Ray says it a moment later"
    ours.lose(SocketLost("SIGSEGV"))

    with pytest.raises(SocketLost, match="SIGSEGV"):
        await call
