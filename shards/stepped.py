"""A shard without loops, for a test that moves the clock."""

from shardclock_server.shards.scan_planner import PlannedScan
from shardclock_server.shards.shard import Shard
from shardclock_server.sql.claims.claim import Scan
from shardclock_server.sql.claims.pauses import ENDED_MAX, PauseEnds
from shardclock_server.sql.session import StatementRefused


class SteppedShard(Shard):
    """Fire the due timers in explicit steps, with the code of the shard."""

    gathers_starts = False  # The test's clock stops at due dates, and a gathered start fires a little later.
    measures_lags = False  # With a stopped clock every timer is punctual, and no metric is read.

    async def begin(self) -> None:
        """Register the holder."""
        await self.beat_turn()

    async def step(self, slot: int | None = None) -> None:
        """Fire the due timers of one slot or of all: the claim fires plain timers; schedules are leased, then fired.

        No timer is leased ahead, and none counts as overdue from an outage, because the clock stops until all due
        timers have fired.

        errors:  StoreUnavailable  the outcome is unknown: the next step fires the remaining timers
                 StatementRefused  a pause can't end, because Postgres refuses to resume its timer
        """
        await self._recall()
        if slot is None:  # next_due.sql returns no slot if a pause ends
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
