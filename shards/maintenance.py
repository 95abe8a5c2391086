"""A shard's maintenance, once a second: connect to workers, and resume timers when their pauses end."""

import asyncio
import time

import structlog

from shardclock.reason import reason_of
from shardclock_server.keepers.heartbeat import Heartbeat
from shardclock_server.shards.hand_over_sender import HandOverSender
from shardclock_server.shards.stats import ShardStats
from shardclock_server.sql.claims.pauses import ENDED_MAX, PauseEnds
from shardclock_server.sql.session import Session

PAUSES_S = 1.0  # The time between two searches for ended pauses, so a timer resumes at most this much too late.
AGAIN_S = 60.0  # The time until the next attempt, after Postgres has refused to resume a timer.

_log = structlog.get_logger("shardclock")


class ShardMaintenance:
    """Connect to workers, and resume timers when their pauses end.

    Each shard resumes timers in all slots, so that a pause also ends if another shard is dead. `claim_soon` is set when
    a pause has ended, because the resumed timers may be due.
    """

    def __init__(
        self,
        session: Session,
        heartbeat: Heartbeat,
        hand_over: HandOverSender,
        *,
        claim_soon: asyncio.Event,
        stats: ShardStats,
    ) -> None:
        self._pauses, self._heartbeat = PauseEnds(session), heartbeat
        self._hand_over, self._claim_soon, self._stats = hand_over, claim_soon, stats
        self._pauses_at_s, self._again_at_s = 0.0, 0.0

    async def turn(self) -> float:
        """Run the maintenance once.

        units:   returns the seconds to wait before the next iteration
        errors:  StoreUnavailable  the next iteration does the remaining work
        """
        wait_s = await self._hand_over.turn()
        # A shard without slots resumes no timers. During a hold of the database no pause ends, because the database may
        # be a copy.
        if self._heartbeat.last.part is None or self._heartbeat.last.hold_reason is not None:
            return wait_s
        if time.monotonic() >= self._pauses_at_s:
            await self._end_pauses()
        return min(wait_s, max(0.0, self._pauses_at_s - time.monotonic()))

    async def _end_pauses(self) -> None:
        if time.monotonic() >= self._again_at_s:
            self._pauses.forget()
            self._again_at_s = time.monotonic() + AGAIN_S
        found = await self._pauses.turn()
        self._stats.refused += len(found.refused)
        for timer_key, error in found.refused.items():
            _log.error("timer not resumed", timer_key=timer_key, error=reason_of(error))
        if found.ended:
            self._claim_soon.set()
        wait_s = PAUSES_S if found.next_s is None else min(PAUSES_S, found.next_s)
        self._pauses_at_s = time.monotonic() + (wait_s if found.ended < ENDED_MAX else 0.0)
