"""The connection of one consumer: the user's function opens it, and opens it again after a loss."""

import json
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from typing import Any, Protocol, Self

from shardclock.log.async_timing import limit, opened
from shardclock.log.failures import PoolerInBetween, spares_connection
from shardclock.sql.arguments import written
from shardclock.sql.statement import Statement, statement

CHANNEL = "shardclock_log"
# Reasons: docs/decisions/0037-pinned-semantics.md. The search path and the formats of dates are not changed, because
# the user's own statements may depend on both.
FIXED = {
    "default_transaction_isolation": "read committed",
    "default_transaction_read_only": "off",
    "synchronous_commit": "on",
    "idle_session_timeout": "0",
    # A host that vanishes does not close its connection; the server ends the session, with its locks, after about 10 s.
    "tcp_keepalives_idle": "5",
    "tcp_keepalives_interval": "1",
    "tcp_keepalives_count": "4",
    "tcp_user_timeout": "9s",
}
LIMITS = ("statement_timeout", "lock_timeout", "idle_in_transaction_session_timeout")


class AsyncHeld(Protocol):
    """The methods of a `shardclock.sql` driver that a consumer uses."""

    backend: int | None
    commits_each: bool
    connection: Any
    is_closed: bool
    is_in_transaction: bool

    async def answer(self, statement: Statement, asked: str) -> str | None: ...
    async def prepare(self) -> None: ...
    def transaction(self) -> AbstractAsyncContextManager[Any]: ...
    async def run(self, command: str) -> None: ...
    async def listen(self, channel: str) -> None: ...
    async def wait(self, within_s: float) -> None: ...
    async def close(self) -> None: ...
    async def drop(self) -> None: ...


class AsyncLink:
    """Send statements, each in its own transaction; the first statement opens the connection."""

    def __init__(self, connect: Callable[[], Any], *, application: str, timeout_s: float) -> None:
        self._connect = connect
        self._application = application
        self._timeout_s = timeout_s
        self._driver: AsyncHeld | None = None
        self._listens = False

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        driver, self._driver = self._driver, None
        if driver is not None:
            with suppress(Exception):  # the connection may already be lost
                await driver.close()

    @property
    def is_lost(self) -> bool:
        """True if there is no usable connection now."""
        return self._driver is None or self._driver.is_closed

    async def answer(self, statement: Statement, asked: str) -> str | None:
        """Send one statement, and return the single text of its single row.

        errors:  ApiError  Postgres refuses the request; all other errors are the driver's own
        """
        async with self._acquired() as driver:
            if driver.commits_each:
                return await driver.answer(statement, asked)
            async with driver.transaction():
                return await driver.answer(statement, asked)

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[AsyncHeld]:
        """Yield the driver within one transaction, which is committed at the end of the block."""
        async with self._acquired() as driver, driver.transaction():
            yield driver

    async def wait(self, within_s: float) -> None:
        """Wait for a notification that the log has new records."""
        async with self._acquired() as driver:
            if not self._listens:
                await driver.listen(CHANNEL)
                self._listens = True
                return  # return immediately, because a notification before `listen` was missed

            await driver.wait(within_s)

    @asynccontextmanager
    async def _acquired(self) -> AsyncIterator[AsyncHeld]:
        try:
            async with limit(self._timeout_s):
                yield await self._open()
        except BaseException as error:
            if self.is_lost or not spares_connection(error):
                await self._drop()
            raise

    async def _open(self) -> AsyncHeld:
        if self._driver is None or self._driver.is_closed:
            self._driver, self._listens = await self._opened(), False
        return self._driver

    async def _opened(self) -> AsyncHeld:
        driver: AsyncHeld = await opened(self._connect)
        try:
            await self._fix(driver)
        except BaseException:
            with suppress(Exception):
                await driver.drop()
            raise
        return driver

    async def _fix(self, driver: AsyncHeld) -> None:
        await driver.prepare()
        # The server's timeouts are slightly shorter than the client's, and release the partition of a frozen client.
        limit_ms = int(self._timeout_s * 900)
        settings = {
            **FIXED,
            **dict.fromkeys(LIMITS, str(limit_ms)),
            "transaction_timeout": f"{self._timeout_s * 1000:.0f}",
        }
        async with driver.transaction():
            answer = await driver.answer(
                statement("open_session"), written({"application_name": self._application, "settings": settings})
            )
        assert answer is not None
        backend = json.loads(answer)["backend"]
        if driver.backend not in (None, backend):
            raise PoolerInBetween(
                f"backend {driver.backend} is expected and {backend} answers: a consumer's session keeps settings and"
                " locks, so let it connect to Postgres itself, not to a connection pooler"
            )

    async def _drop(self) -> None:
        driver, self._driver = self._driver, None
        if driver is not None:
            with suppress(Exception):
                await driver.drop()
