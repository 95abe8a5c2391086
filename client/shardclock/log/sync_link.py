# `make docs` writes this file from async_link.py: change that file, and run `make docs`.
"""The connection of one consumer: the user's function opens it, and opens it again after a loss."""

import json
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import Any, Protocol, Self

from shardclock.log.failures import PoolerInBetween, spares_connection
from shardclock.log.sync_timing import limit, opened
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


class Held(Protocol):
    """The methods of a `shardclock.sql` driver that a consumer uses."""

    backend: int | None
    commits_each: bool
    connection: Any
    is_closed: bool
    is_in_transaction: bool

    def answer(self, statement: Statement, asked: str) -> str | None: ...
    def prepare(self) -> None: ...
    def transaction(self) -> AbstractContextManager[Any]: ...
    def run(self, command: str) -> None: ...
    def listen(self, channel: str) -> None: ...
    def wait(self, within_s: float) -> None: ...
    def close(self) -> None: ...
    def drop(self) -> None: ...


class Link:
    """Send statements, each in its own transaction; the first statement opens the connection."""

    def __init__(self, connect: Callable[[], Any], *, application: str, timeout_s: float) -> None:
        self._connect = connect
        self._application = application
        self._timeout_s = timeout_s
        self._driver: Held | None = None
        self._listens = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        driver, self._driver = self._driver, None
        if driver is not None:
            with suppress(Exception):  # the connection may already be lost
                driver.close()

    @property
    def is_lost(self) -> bool:
        """True if there is no usable connection now."""
        return self._driver is None or self._driver.is_closed

    def answer(self, statement: Statement, asked: str) -> str | None:
        """Send one statement, and return the single text of its single row.

        errors:  ApiError  Postgres refuses the request; all other errors are the driver's own
        """
        with self._acquired() as driver:
            if driver.commits_each:
                return driver.answer(statement, asked)
            with driver.transaction():
                return driver.answer(statement, asked)

    @contextmanager
    def transaction(self) -> Iterator[Held]:
        """Yield the driver within one transaction, which is committed at the end of the block."""
        with self._acquired() as driver, driver.transaction():
            yield driver

    def wait(self, within_s: float) -> None:
        """Wait for a notification that the log has new records."""
        with self._acquired() as driver:
            if not self._listens:
                driver.listen(CHANNEL)
                self._listens = True
                return  # return immediately, because a notification before `listen` was missed

            driver.wait(within_s)

    @contextmanager
    def _acquired(self) -> Iterator[Held]:
        try:
            with limit(self._timeout_s):
                yield self._open()
        except BaseException as error:
            if self.is_lost or not spares_connection(error):
                self._drop()
            raise

    def _open(self) -> Held:
        if self._driver is None or self._driver.is_closed:
            self._driver, self._listens = self._opened(), False
        return self._driver

    def _opened(self) -> Held:
        driver: Held = opened(self._connect)
        try:
            self._fix(driver)
        except BaseException:
            with suppress(Exception):
                driver.drop()
            raise
        return driver

    def _fix(self, driver: Held) -> None:
        driver.prepare()
        # The server's timeouts are slightly shorter than the client's, and release the partition of a frozen client.
        limit_ms = int(self._timeout_s * 900)
        settings = {
            **FIXED,
            **dict.fromkeys(LIMITS, str(limit_ms)),
            "transaction_timeout": f"{self._timeout_s * 1000:.0f}",
        }
        with driver.transaction():
            answer = driver.answer(
                statement("open_session"), written({"application_name": self._application, "settings": settings})
            )
        assert answer is not None
        backend = json.loads(answer)["backend"]
        if driver.backend not in (None, backend):
            raise PoolerInBetween(
                f"backend {driver.backend} is expected and {backend} answers: a consumer's session keeps settings and"
                " locks, so let it connect to Postgres itself, not to a connection pooler"
            )

    def _drop(self) -> None:
        driver, self._driver = self._driver, None
        if driver is not None:
            with suppress(Exception):
                driver.drop()
