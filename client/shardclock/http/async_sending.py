"""Send requests to one gateway, and again where that is safe and may help."""

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from http import HTTPStatus
from time import monotonic

import httpx2

from shardclock.api.errors import ApiError
from shardclock.http.asked import Asked
from shardclock.http.place import Place
from shardclock.http.problems import foreign_error, no_answer, problem_error
from shardclock.http.reading import AnswerT, read_answer
from shardclock.http.retrying import Patience, pause_s_after

CONNECT_S_MAX = 5.0
WAIT_S_MAX = 60.0  # of one request; a proxy may not bear a longer silence
EARLY_S = 0.5  # a gateway that stops answers at once; another one may not be there yet
KEPT_S = 30.0  # a gateway closes a connection that was idle for 75 s
SILENT_S_MAX = 45.0  # a stream of events says every 15 s that it is still there
EVENTS = "text/event-stream"
NOT_SENT = (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout)


class AsyncTries:
    """Count the attempts of one request, and wait before each further one."""

    def __init__(self, patience: Patience) -> None:
        self._patience = patience
        self._failing_since_s: float | None = None
        self._attempt = 0
        self._may_be_done = False

    async def again_after(self, error: ApiError) -> None:
        """Wait until the request may be sent again.

        errors:  ApiError  it is not sent again: that would not help, is not safe, or the time is over
        """
        self._attempt += 1
        now_s = monotonic()
        if self._failing_since_s is None:
            self._failing_since_s = now_s
        self._may_be_done = self._may_be_done or error.may_be_done
        elapsed_s = now_s - self._failing_since_s
        pause_s = pause_s_after(error.problem, self._patience, attempt=self._attempt, elapsed_s=elapsed_s)
        if pause_s is None:
            if error.problem.may_pass:
                # That the last attempt was not sent says nothing about those before it.
                error.problem = replace(error.problem, may_be_done=self._may_be_done)
            raise error
        await asyncio.sleep(pause_s)


class AsyncSender:
    """Keep the connections to one gateway, and send requests there; it may be shared."""

    def __init__(self, place: Place, *, timeout_s: float, retry_for_s: float) -> None:
        self._place = place
        self._timeout_s = timeout_s
        self._retry_for_s = retry_for_s
        self._http = httpx2.AsyncClient(
            base_url=place.url,
            headers=place.headers,
            # A proxy that the environment names could read what is not encrypted.
            trust_env=place.is_encrypted,
            # Each who waits has a connection of its own, however many they are.
            limits=httpx2.Limits(max_keepalive_connections=100, keepalive_expiry=KEPT_S),
        )

    async def aclose(self) -> None:
        """Close all connections."""
        await self._http.aclose()

    def tries(self, *, is_repeatable: bool) -> AsyncTries:
        """Begin to count attempts; they end `retry_for` after the first that failed."""
        return AsyncTries(Patience(self._retry_for_s, is_repeatable, random.random))

    async def send(self, asked: Asked) -> httpx2.Response:
        """Send a request until it is answered.

        errors:  ApiError  it was not done; `NoAnswer`: nobody knows
        """
        tries = self.tries(is_repeatable=asked.is_repeatable)
        while True:
            try:
                return await self.send_once(asked)
            except ApiError as error:
                await tries.again_after(error)

    async def ask(self, model: type[AnswerT], asked: Asked) -> AnswerT:
        """Send a request, and read what was answered.

        errors:  as `send`
        """
        return read_answer(model, asked, (await self.send(asked)).content)

    async def ask_until(
        self, is_end: Callable[[httpx2.Response], bool], asked: Asked, *, within_s: float
    ) -> httpx2.Response:
        """Ask again and again, each time waiting for it, until an answer is the end or the time is over.

        shape:   the last answer
        errors:  as `send`
        """
        until_s = monotonic() + within_s
        while True:
            begun_s = monotonic()
            wait_s = min(WAIT_S_MAX, max(0.0, until_s - begun_s))
            answer = await self.send(asked.waiting(timedelta(seconds=wait_s)))
            now_s = monotonic()
            if is_end(answer) or now_s >= until_s:
                return answer
            await asyncio.sleep(min(EARLY_S, max(0.0, begun_s + wait_s - now_s)))

    async def wait_for(self, model: type[AnswerT], asked: Asked, *, within_s: float) -> AnswerT | None:
        """Ask until there is something, as `ask_until` does, and read it.

        shape:   None: there was nothing in that time
        errors:  as `send`
        """

        def is_there(answer: httpx2.Response) -> bool:
            return answer.status_code != HTTPStatus.NO_CONTENT

        answer = await self.ask_until(is_there, asked, within_s=within_s)
        return read_answer(model, asked, answer.content) if is_there(answer) else None

    async def send_once(self, asked: Asked) -> httpx2.Response:
        """Send a request, once.

        errors:  as `send`
        """
        try:
            answer = await self._http.request(
                asked.method,
                asked.path,
                params=asked.query,
                content=asked.body,
                headers=asked.headers,
                timeout=self._timeout(self._timeout_s + asked.wait_s),
            )
        except httpx2.RequestError as error:
            raise no_answer(asked, self._place, error, was_sent=not isinstance(error, NOT_SENT)) from error
        if not answer.is_success:
            raise problem_error(asked, answer.status_code, answer.headers, answer.content)
        return answer

    @asynccontextmanager
    async def stream(self, asked: Asked) -> AsyncIterator[httpx2.EventSource]:
        """Follow events during a block.

        errors:  ApiError  they can't be followed, or the connection was lost
        """
        timeout = self._timeout(SILENT_S_MAX)
        try:
            async with self._http.stream(asked.method, asked.path, params=asked.query, timeout=timeout) as answer:
                if not answer.is_success:
                    raise problem_error(asked, answer.status_code, answer.headers, await answer.aread())
                if not answer.headers.get("content-type", "").startswith(EVENTS):
                    raise foreign_error(asked, answer.status_code)
                yield httpx2.EventSource(answer)
        except httpx2.RequestError as error:
            raise no_answer(asked, self._place, error, was_sent=False) from error

    def _timeout(self, answer_s: float) -> httpx2.Timeout:
        return httpx2.Timeout(self._timeout_s, connect=min(CONNECT_S_MAX, self._timeout_s), read=answer_s)
