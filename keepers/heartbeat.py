"""Send the heartbeats of one keeper, and store Postgres's responses."""

import time
from datetime import UTC, datetime

import structlog

from shardclock_server.sql.cluster.holders import Beat, Incarnation, beat, register_holder
from shardclock_server.sql.dsn import Dsn
from shardclock_server.sql.session import QUEUE_PLANS, UNSYNCED, Session


class HolderEnded(Exception):
    """A coordinator has declared this keeper dead. Other keepers may now have its leases, so this keeper must stop."""


class Heartbeat:
    """Send heartbeats on a separate connection, because a long statement would delay them."""

    def __init__(self, incarnation: Incarnation, dsn: Dsn | str, *, timeout_s: float) -> None:
        self.last = Beat(datetime.max.replace(tzinfo=UTC), part=None, part_count=None)
        self.sent_s = 0.0
        self.round_trip_s = 0.0
        self._incarnation = incarnation
        self._log = structlog.get_logger().bind(holder=f"{incarnation.holder:016x}")
        self._session = Session(
            dsn,
            application=f"shardclock {incarnation.role} beats {incarnation.holder:016x}",
            timeout_s=timeout_s,
            plans=QUEUE_PLANS | UNSYNCED,
        )

    @property
    def began(self) -> bool:
        """Return whether the holder is registered."""
        return self.sent_s > 0

    async def beat(self, *, held: int) -> None:
        """Send a heartbeat and store the response; register the holder before the first heartbeat.

        errors:  HolderEnded       the keeper must stop
                 StoreUnavailable  no answer before the timeout: try again
        """
        if not self.began:
            await register_holder(self._session, self._incarnation)
        sent_s = time.monotonic()
        answer = await beat(self._session, self._incarnation.holder, held=held)
        if answer is None:
            raise HolderEnded(f"holder {self._incarnation.holder:016x} has been ended")
        self._tell_hold(answer.hold_reason)
        self.last, self.sent_s, self.round_trip_s = answer, sent_s, time.monotonic() - sent_s

    async def close(self) -> None:
        """Close the connection."""
        await self._session.close()

    def _tell_hold(self, why: str | None) -> None:
        if why != self.last.hold_reason:
            if why:
                self._log.warning("on hold", why=why, way_out="shardclock release")
            else:
                self._log.info("released")
