"""A shard without loops, for a test that moves the clock."""

from shardclock_server.shards.scan_planner import PlannedScan
from shardclock_server.shards.shard import Shard
from shardclock_server.sql.claims.claim import Scan
from shardclock_server.sql.claims.pauses import ENDED_MAX, PauseEnds
from shardclock_server.sql.session import StatementRefused


class SteppedShard(Shard):
    """A shard that fires due timers only when `step` is called."""

    # Starts of jobs are not delayed to fire several at once, because the test's clock stops exactly at due dates.
    gathers_starts = False
    measures_lags = False  # With a stopped clock there are no lags to measure.

    async def begin(self) -> None:
        """Register the holder."""
        await self.beat_turn()

    async def step(self, slot: int | None = None) -> None:
        """Fire the due timers of one slot or of all slots.

        Claims fire plain timers; schedules are first leased and then fired.

        The clock stands still until all due timers have fired. So no timer is leased before its due date, and no timer
        counts as overdue.

        errors:  StoreUnavailable  the outcome is unknown: the next step fires the remaining timers
                 StatementRefused  Postgres refuses to resume a timer at the end of its pause
        """
        await self._recall()
        if slot is None:  # next_due.sql returns no slot if the next event is the end of a pause
            pauses = PauseEnds(self._claims)
            found = await pauses.turn()
            while found.ended == ENDED_MAX:
                found = await pauses.turn()
            for refused in found.refused.values():
                raise refused
        everything_due = PlannedScan(Scan("own", 0.0, self._settings.claim_batch, slot=slot), turn_at_s=0.0)
        try:
            await self._scan(everything_due)
        except StatementRefused:
            # further scans only lease, so that a faulty timer doesn't prevent the firing of other timers
            await self._scan(everything_due)
        await self._fire_due()

    async def end(self) -> None:
        """End the holder, which frees all timers of the holder."""
        await self._hand_back()
