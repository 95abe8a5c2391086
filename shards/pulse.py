"""The signs of life of one shard, and what they bring back."""

import time
from datetime import UTC, datetime

import structlog

from shards.settings import ShardSettings
from sql.holders import Beat, Incarnation, beat, register_holder
from sql.session import QUEUE_PLANS, UNSYNCED, Session


class HolderEnded(Exception):
    """Somebody declared this holder dead; its timers belong to others now, so it must stop."""


class Pulse:
    """Say that a shard is alive, on a connection of its own: a claim that takes long is no silence."""

    def __init__(self, incarnation: Incarnation, settings: ShardSettings) -> None:
        self.last = Beat(datetime.max.replace(tzinfo=UTC), shard=None, shard_count=None)
        self.sent_at = 0.0
        self.round_trip_s = 0.0
        self._incarnation = incarnation
        self._log = structlog.get_logger().bind(holder=f"{incarnation.holder:016x}")
        self._session = Session(
            settings.dsn,
            application=f"shardclock shard beats {incarnation.holder:016x}",
            timeout_s=settings.statement_timeout_s,
            plans=QUEUE_PLANS | UNSYNCED,
        )

    @property
    def began(self) -> bool:
        """Say whether the holder is known to the cluster."""
        return self.sent_at > 0

    async def beat(self, *, held: int) -> None:
        """Give a sign of life, and take note of the answer; before the first, register.

        errors:  HolderEnded       the shard must stop
                 StoreUnavailable  no answer in time: try again
        """
        if not self.began:
            await register_holder(self._session, self._incarnation)
        sent_at = time.monotonic()
        answer = await beat(self._session, self._incarnation.holder, held=held)
        if answer is None:
            raise HolderEnded(f"holder {self._incarnation.holder:016x} has been ended")
        self._tell_hold(answer.held_why)
        self.last, self.sent_at, self.round_trip_s = answer, sent_at, time.monotonic() - sent_at

    async def close(self) -> None:
        """Close the connection."""
        await self._session.close()

    def _tell_hold(self, why: str | None) -> None:
        if why != self.last.held_why:
            if why:
                self._log.warning("on hold", why=why, mend="shardclock release")
            else:
                self._log.info("released")
