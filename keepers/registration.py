"""The logger, the heartbeats, the loops and the connections of one holder."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Protocol

import structlog

from shardclock.reason import reason_of
from shardclock_server.keepers.heartbeat import Heartbeat
from shardclock_server.keepers.loops import Loops
from shardclock_server.keepers.settings import KeeperSettings
from shardclock_server.sql.cluster.holders import Incarnation, end_holders
from shardclock_server.sql.dsn import Dsn
from shardclock_server.sql.notification_listener import NotificationListener
from shardclock_server.sql.notification_sender import NotificationSender, Send
from shardclock_server.sql.session import QUEUE_PLANS, Session, StatementRefused, StoreUnavailable

# The time limit for the release of all leases. If Postgres does not answer, the leases expire by themselves.
HAND_BACK_S = 1.0


class _Closable(Protocol):
    async def close(self) -> None: ...


class Registration:
    """The tasks that all keepers have in common: heartbeats, loops and connections.

    `failures` counts the failures of each loop; a loop waits about `retry_s` after its first failure. `hand_back`
    closes all connections that this object has opened.
    """

    def __init__(
        self,
        incarnation: Incarnation,
        settings: KeeperSettings,
        dsn: Dsn | str,
        *,
        retry_s: float,
        failures: Counter[str],
    ) -> None:
        self.holder = incarnation.holder
        self.failures = failures
        self.log = structlog.get_logger().bind(holder=self.name)
        self.heartbeat = Heartbeat(incarnation, dsn, timeout_s=settings.statement_timeout_s)
        self.loops = Loops(retry_s=retry_s, retry_max_s=settings.retry_max_s, failed=self.count_failure, log=self.log)
        self._role = incarnation.role
        self._dsn = dsn
        self._timeout_s = settings.statement_timeout_s
        self._opened: list[_Closable] = [self.heartbeat]

    @property
    def name(self) -> str:
        """Return the holder's name in logs and metrics."""
        return f"{self.holder:016x}"

    def count_failure(self, loop: str) -> None:
        """Count a failed iteration of a loop."""
        self.failures[loop] += 1

    def session(self, use: str, plans: dict[str, str] = QUEUE_PLANS, timeout_s: float | None = None) -> Session:
        """Open a session for one use."""
        application = f"shardclock {self._role} {use} {self.name}"
        session = Session(self._dsn, application=application, timeout_s=timeout_s or self._timeout_s, plans=plans)
        self._opened.append(session)
        return session

    def listener(self, channel: str) -> NotificationListener:
        """Listen to a channel, on a separate session."""
        return NotificationListener(self.session("notifications"), channel)

    def notification_sender(self, send: Send, *, to: str) -> NotificationSender:
        """Send notifications to the channel `to`, on a separate session."""
        of = f"{self._role} notifications {to} {self.name}"
        sender = NotificationSender(self._dsn, send, of=of, timeout_s=self._timeout_s)
        self._opened.append(sender)
        return sender

    async def hand_back(
        self, session: Session, *, held: Callable[[], int], first: Callable[[], Awaitable[None]]
    ) -> bool:
        """End the holder, which frees all its leases, and close all connections; return whether the holder has ended.

        Call the coroutine function `first` before the holder ends, within the same time limit.
        """
        is_done = False
        try:
            async with asyncio.timeout(HAND_BACK_S):
                await first()
                await end_holders(session, [self.holder], why="drained")
            is_done = True
        except (StoreUnavailable, StatementRefused, TimeoutError) as error:
            self.log.warning("could not hand back", held=held(), error=reason_of(error))
        finally:
            for connection in self._opened:
                await connection.close()
        return is_done
