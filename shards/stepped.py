"""A shard that acts when it is told to, and not in loops: for a test that moves the clock by hand."""

from shardclock_server.shards.claim_planner import PlannedScan
from shardclock_server.shards.shard import Shard
from shardclock_server.sql.claims.claim import Scan
from shardclock_server.sql.session import StatementRefused


class SteppedShard(Shard):
    """Fire what is due, step by step; all that a step does is the shard's own."""

    gathers_starts = False  # the clock stands still: it never reaches a later moment
    measures_lags = False  # a clock that stands still makes every timer punctual, and no metric is read

    async def begin(self) -> None:
        """Register the holder."""
        await self.beat_turn()

    async def step(self, slot: int | None = None) -> None:
        """Fire the due timers of one slot or of all: plain timers by the claim itself, schedules once they are leased.

        Nothing is leased ahead, and nothing counts as left by an outage: the clock stands still until all has fired.

        errors:  StoreUnavailable  the outcome is unknown: the next step fires what is left
        """
        await self._recall()
        everything_due = PlannedScan(Scan("own", 0.0, self._settings.claim_batch, slot=slot), turn_at_s=0.0)
        try:
            await self._scan(everything_due)
        except StatementRefused:
            await self._scan(everything_due)  # from now on scans only lease, so that what is at fault fails alone
        await self._fire_due()

    async def end(self) -> None:
        """End the holder, which frees all its timers."""
        await self._hand_back()
