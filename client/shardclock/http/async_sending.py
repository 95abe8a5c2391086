"""Send requests to one gateway; retry a failed request if a retry is safe and may succeed."""

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
from shardclock.ending import answer_s_left, retry_s_left
from shardclock.http.address import GatewayAddress
from shardclock.http.problems import foreign_error, no_answer, problem_error
from shardclock.http.reading import AnswerT, read_answer
from shardclock.http.requests import Request
from shardclock.http.retrying import Patience, pause_s_after

CONNECT_S_MAX = 5.0
WAIT_S_MAX = 60.0  # The longest wait of one request; a proxy may close a connection without data.
EARLY_S = 0.5  # A gateway that stops refuses a long poll immediately; the next gateway may need this pause to start.
KEPT_S = 30.0  # A gateway closes a connection after 75 s without requests.
SILENT_S_MAX = 45.0  # A stream of events sends a comment each 15 s.
EVENTS = "text/event-stream"
NOT_SENT = (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout)


class AsyncTries:
    """The attempts of one request, with a pause before each retry."""

    def __init__(self, patience: Patience) -> None:
        self._patience = patience
        self._failing_since_s: float | None = None
        self._attempt = 0
        self._may_be_done = False

    async def again_after(self, error: ApiError) -> None:
        """Wait until the request may be sent again.

        errors:  ApiError  the request is not sent again: a retry would not help, a retry is not safe, or the time is
                           over
        """
        self._attempt += 1
        now_s = monotonic()
        if self._failing_since_s is None:
            self._failing_since_s = now_s
        self._may_be_done = self._may_be_done or error.may_be_done
        elapsed_s = now_s - self._failing_since_s
        pause_s = pause_s_after(error.problem, self._patience, attempt=self._attempt, elapsed_s=elapsed_s)
        if pause_s is None or pause_s > retry_s_left():
            if error.problem.may_pass:
                # Even if the last attempt was not sent, an earlier attempt may have taken effect.
                error.problem = replace(error.problem, may_be_done=self._may_be_done)
            raise error
        await asyncio.sleep(pause_s)


class AsyncSender:
    """The connections to one gateway; several tasks of a program may share this object."""

    def __init__(self, address: GatewayAddress, *, timeout_s: float, retry_for_s: float) -> None:
        self._address = address
        self._timeout_s = timeout_s
        self._retry_for_s = retry_for_s
        self._http = httpx2.AsyncClient(
            base_url=address.url,
            headers=address.headers,
            # A proxy from the environment could read unencrypted requests.
            trust_env=address.is_encrypted,
            # The number of connections is not limited, because each waiting caller needs a separate connection.
            limits=httpx2.Limits(max_keepalive_connections=100, keepalive_expiry=KEPT_S),
        )

    async def aclose(self) -> None:
        """Close all connections."""
        await self._http.aclose()

    def tries(self, *, is_repeatable: bool) -> AsyncTries:
        """Start counting attempts; retries end `retry_for` after the first failure, or before a handler's timeout."""
        return AsyncTries(Patience(self._retry_for_s, is_repeatable, random.random))

    async def send(self, request: Request) -> httpx2.Response:
        """Send a request until it is answered.

        errors:  ApiError  the request was not done; `NoAnswer`: the outcome is unknown
        """
        tries = self.tries(is_repeatable=request.is_repeatable)
        while True:
            try:
                return await self.send_once(request)
            except ApiError as error:
                await tries.again_after(error)

    async def ask(self, model: type[AnswerT], request: Request) -> AnswerT:
        """Send a request, and parse the response.

        errors:  as in `send`
        """
        return read_answer(model, request, (await self.send(request)).content)

    async def ask_until(
        self, is_end: Callable[[httpx2.Response], bool], request: Request, *, within_s: float
    ) -> httpx2.Response:
        """Send a long poll repeatedly until `is_end` accepts a response, or the time is over.

        shape:   the last response
        errors:  as in `send`
        """
        until_s = monotonic() + within_s
        while True:
            begun_s = monotonic()
            wait_s = min(WAIT_S_MAX, max(0.0, until_s - begun_s))
            answer = await self.send(request.with_wait(timedelta(seconds=wait_s)))
            now_s = monotonic()
            if is_end(answer) or now_s >= until_s:
                return answer
            await asyncio.sleep(min(EARLY_S, max(0.0, begun_s + wait_s - now_s)))

    async def wait_for(self, model: type[AnswerT], request: Request, *, within_s: float) -> AnswerT | None:
        """Send a long poll repeatedly, as in `ask_until`, until there is a result; return the parsed result.

        shape:   None: no result within `within_s`
        errors:  as in `send`
        """

        def is_there(answer: httpx2.Response) -> bool:
            return answer.status_code != HTTPStatus.NO_CONTENT

        answer = await self.ask_until(is_there, request, within_s=within_s)
        return read_answer(model, request, answer.content) if is_there(answer) else None

    async def send_once(self, request: Request) -> httpx2.Response:
        """Send a request, once.

        errors:  as in `send`
        """
        try:
            answer = await self._http.request(
                request.method,
                request.path,
                params=request.query,
                content=request.body,
                headers=request.headers,
                # A long poll has no answer for a long time without any fault of the gateway.
                timeout=self._timeout(
                    self._timeout_s + request.wait_s if request.wait_s else min(self._timeout_s, answer_s_left())
                ),
            )
        except httpx2.RequestError as error:
            raise no_answer(request, self._address, error, was_sent=not isinstance(error, NOT_SENT)) from error
        if not answer.is_success:
            raise problem_error(request, answer.status_code, answer.headers, answer.content)
        return answer

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[httpx2.EventSource]:
        """Follow events during a block.

        errors:  ApiError  the events can't be followed, or the connection was lost
        """
        timeout = self._timeout(SILENT_S_MAX)
        try:
            async with self._http.stream(request.method, request.path, params=request.query, timeout=timeout) as answer:
                if not answer.is_success:
                    raise problem_error(request, answer.status_code, answer.headers, await answer.aread())
                if not answer.headers.get("content-type", "").startswith(EVENTS):
                    raise foreign_error(request, answer.status_code)
                yield httpx2.EventSource(answer)
        except httpx2.RequestError as error:
            raise no_answer(request, self._address, error, was_sent=False) from error

    def _timeout(self, answer_s: float) -> httpx2.Timeout:
        timeout_s = min(self._timeout_s, answer_s_left())
        return httpx2.Timeout(timeout_s, connect=min(CONNECT_S_MAX, timeout_s), read=answer_s)
