"""One shard: its loops, and one turn of each loop."""

import asyncio
import time
from collections.abc import Sequence
from datetime import datetime, timedelta

from shardclock_server.keepers.clock import PostgresClock
from shardclock_server.keepers.keeper import Keeper, Loop
from shardclock_server.keepers.loops import one_line
from shardclock_server.keepers.registration import Registration
from shardclock_server.shards.claim_planner import ClaimPlanner, PlannedScan
from shardclock_server.shards.families import LAG_EDGES
from shardclock_server.shards.firing import (
    firing_of,
    held_and_forgotten,
    is_unplanned,
    leftover,
    planning_of,
    refusal_of,
)
from shardclock_server.shards.locked import LockedTimers
from shardclock_server.shards.queue import TimerQueue
from shardclock_server.shards.settings import ShardSettings
from shardclock_server.shards.stats import ShardGauges, ShardStats, report_of
from shardclock_server.sql.claims.claim import Scan, ScanResult, claim_due, leased_by, still_leased
from shardclock_server.sql.claims.fire import fire_due, pause_faulty, plan_schedules
from shardclock_server.sql.claims.hints import DUE
from shardclock_server.sql.cluster.holders import Incarnation
from shardclock_server.sql.deliveries.hints import send_delivery_hint
from shardclock_server.sql.dsn import Dsn
from shardclock_server.sql.halves import values_at_fault, write_in_halves
from shardclock_server.sql.hints import HINT_S
from shardclock_server.sql.log.hints import send_hint
from shardclock_server.sql.session import StatementRefused, StoreTooSlow, StoreUnavailable
from shardclock_server.timers.model import ClaimedTimer
from shardclock_server.timers.refusal import InvalidTimer

# The SQLSTATE of a duplicate key, which the sequence causes, not the timer: docs/decisions/0032-whose-key.md.
KEY_TAKEN = "23505"
# After Postgres refused a scan, overdue timers are leased for this long before they are fired: then one bad row fails
# alone.
CLAIM_ONLY_S = 10.0
# An alarm is set again only when Postgres's time proves to be later than estimated by more than this: an alarm is no
# more exact.
ALARM_SLACK_S = 0.001
# Between the beginnings of two claims that hints ask for: at least this, and four times what the last one took. So they
# take a quarter of a shard's time at most, with any number of clients.
HINTED_S, HINTED_SHARE = 0.01, 4.0


class Shard(Keeper):
    """Lease and fire the timers of one shard, until it is drained or declared dead."""

    gathers_starts = True  # of jobs, which fire together if they are due one right after the other
    measures_lags = True  # of scans, for the metrics

    def __init__(
        self, incarnation: Incarnation, settings: ShardSettings, dsn: Dsn | str, *, clock: PostgresClock | None = None
    ) -> None:
        self.stats = ShardStats()
        registration = Registration(incarnation, settings, dsn, retry_s=settings.poll_s, failures=self.stats.failures)
        # Two connections beside the heartbeat's: a claim over a long backlog must not keep a due timer from firing.
        self._claims, self._fires = registration.session("claims"), registration.session("fires")
        super().__init__(registration, settings, self._claims)
        self._settings = settings
        # Whoever schedules a timer that is due at once may say so: it need not wait for the next poll.
        self._hints = registration.listener(DUE)
        self._record_hints = registration.hint_sender(send_hint, to="consumers")
        self._delivery_hints = registration.hint_sender(send_delivery_hint, to="workers")
        self._clock = clock or PostgresClock()
        self._queue = TimerQueue(gathers_starts=self.gathers_starts)
        self._locked = LockedTimers(lease_s=settings.lease_s, timers_max=settings.queue_max)
        self._planner = ClaimPlanner(settings)
        self._claim_soon = asyncio.Event()
        self._claim_took_s = 0.0
        self._fire_batch = settings.fire_batch
        self._fire_overdue_from = 0.0
        self._answer_lost = False

    def __len__(self) -> int:
        """Count the timers held in memory."""
        return len(self._queue) + len(self._locked)

    def loops(self) -> Sequence[Loop]:
        """List the loops of the shard."""
        return [
            Loop("claims", self.claim_turn, self._claim_soon),
            Loop("fires", self.fire_turn),
            Loop("hints", self.hint_turn),
            Loop("record_hints", self._record_hints.turn),
            Loop("delivery_hints", self._delivery_hints.turn),
        ]

    def learn_beat(self, *, first: bool) -> None:
        """Learn Postgres's time; claim at once when the holder is registered."""
        self._observe(self._heartbeat.last.server_time, sent_s=self._heartbeat.sent_s)
        if first:
            self._claim_soon.set()

    async def claim_turn(self) -> float:
        """Make one turn of the claim loop: scan, if the holder is registered; no pause if a scan may have left some."""
        self._claim_soon.clear()
        if not self._heartbeat.began:
            return self._settings.poll_s
        await self._recall()
        busy, began_s = False, time.monotonic()
        for planned in self._planner.scans(held=len(self._queue), now_s=began_s):
            busy |= await self._scan(planned)
        self._claim_took_s = time.monotonic() - began_s
        return 0.0 if busy else self._planner.pause_s

    async def hint_turn(self) -> float:
        """Make one turn of the loop that waits for hints: claim now, if one came."""
        if not self._heartbeat.began:
            return HINT_S
        if await self._hints.wait(HINT_S):
            self._hints.forget()
            self._claim_soon.set()
        return max(HINTED_S, HINTED_SHARE * self._claim_took_s)

    async def fire_turn(self) -> float:
        """Make one turn of the fire loop: wait until the soonest timer is due, then fire what is due."""
        await self._queue.until_due(self._clock.now_s)
        await self._fire_due()
        return 0.0

    async def _fire_due(self) -> None:
        due = self._queue.pop_due(self._clock.now_s(), self._fire_batch)
        if self._heartbeat.last.hold_reason is not None:
            await self._wait_for_release(due)
            return
        if due:
            try:
                await self._fire(due)
            except BaseException as error:
                # The outcome is unknown. Sending the same timers again settles it: those that fired match no row.
                self._queue.add(due)
                if isinstance(error, StoreTooSlow):  # as for large payloads: fewer may be fired in time
                    self._fire_batch = max(1, len(due) // 2)
                raise
            self._fire_batch = min(self._settings.fire_batch, 2 * self._fire_batch)

    async def _wait_for_release(self, due: Sequence[ClaimedTimer]) -> None:
        """Try timers again after the next heartbeat: a hold may be over, and a forgotten lease would delay them."""
        now_s = self._clock.now_s()
        held, forgotten = held_and_forgotten(due, now_s=now_s, lease_s=self._settings.lease_s)
        self._queue.add(held, not_before_s=now_s + self._settings.heartbeat_s)
        await self._sort_out(forgotten, [])

    async def _recall(self) -> None:
        """Read which timers we lease, if a claim's answer was lost: others can't fire them before the lease ends."""
        if self._answer_lost:
            horizon_s, lease_s = self._settings.horizon_s, self._settings.lease_s
            self._queue.add(await leased_by(self._claims, self.holder, horizon_s=horizon_s, lease_s=lease_s))
            self._answer_lost = False

    async def _scan(self, planned: PlannedScan) -> bool:
        sent_s = time.monotonic()
        if (scan := self._planner.begin(planned, now_s=sent_s)) is None:
            return False
        measured = self.stats.lag_histograms.measures(scan, has_backlog=self._planner.has_backlog)
        try:
            taken = await self._claim(scan, LAG_EDGES if measured and self.measures_lags else None, sent_s=sent_s)
        except StoreUnavailable:
            self._answer_lost = True
            self._planner.fail(planned, now_s=time.monotonic())
            raise
        self._observe(taken.server_time, sent_s=sent_s)
        self._queue.add(taken.claimed)
        self.stats.count_scan(scan, taken, measured=measured)
        self._record_hints.want(taken.fired)
        self._delivery_hints.want(taken.deliveries)
        now_s = time.monotonic()
        self._planner.rate(taken.fired, now_s=now_s)
        return self._planner.learn(planned, taken, now_s=now_s)

    async def _claim(self, scan: Scan, lag_edges: Sequence[timedelta] | None, *, sent_s: float) -> ScanResult:
        fire_overdue, lease_s = sent_s >= self._fire_overdue_from, self._settings.lease_s
        try:
            return await claim_due(
                self._claims, self.holder, scan, lease_s=lease_s, fire_overdue=fire_overdue, lag_edges=lag_edges
            )
        except StatementRefused:
            self._fire_overdue_from = time.monotonic() + CLAIM_ONLY_S
            raise

    async def _fire(self, timers: Sequence[ClaimedTimer]) -> None:
        await write_in_halves(timers, self._fire_at_once, self._refuse, refusal_of)

    async def _fire_at_once(self, timers: Sequence[ClaimedTimer]) -> None:
        await self._plan([timer for timer in timers if is_unplanned(timer)])
        await self._fire_whole([timer for timer in timers if not is_unplanned(timer)])

    async def _plan(self, timers: Sequence[ClaimedTimer]) -> None:
        """Write the first due date of new schedules; a later claim leases them when that date is near."""
        if timers:
            planned = await plan_schedules(self._fires, self.holder, [planning_of(timer) for timer in timers])
            self.stats.planned += len(planned)
            await self._sort_out(timers, [timer.timer_key for timer in timers if timer.timer_key not in planned])

    async def _fire_whole(self, timers: Sequence[ClaimedTimer]) -> None:
        if not timers:
            return
        now, sent_s = self._clock.now(), time.monotonic()
        firings = [firing_of(timer, now) for timer in timers]
        fired = await fire_due(self._fires, self.holder, firings, lag_edges=LAG_EDGES)
        self._observe(fired.server_time, sent_s=sent_s)
        self.stats.count_firing(firings, fired)
        self._record_hints.want(len(fired.timer_keys))
        self._delivery_hints.want(fired.deliveries)
        self._planner.rate(sum(timer.schedule is None for timer in timers), now_s=time.monotonic())
        if any(firing.next and firing.next.due_date <= now for firing in firings):
            self._claim_soon.set()  # a schedule that fires each missed occurrence need not wait a poll for each
        left = leftover(timers, fired)
        self.stats.early += len(left.early)
        self._queue.add(left.early)
        await self._sort_out(timers, left.unexplained)

    async def _refuse(self, timer: ClaimedTimer, error: Exception) -> None:
        """Let a timer that can't be fired fail alone: pause it if its data are at fault, else let its lease run out."""
        self.stats.refused += 1
        await self._sort_out([timer], [])  # releases the timers that wait behind this one
        refused = values_at_fault(error)
        is_at_fault = isinstance(error, InvalidTimer) or (refused is not None and refused.sqlstate != KEY_TAKEN)
        paused = is_at_fault and await pause_faulty(self._fires, self.holder, timer, why=str(error))
        self._log.error("timer refused", timer_key=timer.timer_key, paused=paused, error=one_line(error))

    async def _sort_out(self, sent: Sequence[ClaimedTimer], timer_keys: Sequence[int]) -> None:
        """Ask why timers did not fire: keep those that a transaction has locked, drop those that are no longer ours."""
        held = await still_leased(self._fires, self.holder, timer_keys) if timer_keys else []
        self.stats.locked += len(held)
        self.stats.fenced += len(timer_keys) - len(held)
        now_s = self._clock.now_s()
        retry = self._locked.learn([timer.timer_key for timer in sent], held, now_s=now_s)
        self._queue.add(retry.now)
        self._queue.add(retry.later, not_before_s=now_s + retry.later_s)

    def _observe(self, server_time: datetime, *, sent_s: float) -> None:
        believed_s = self._clock.now_s()
        self._clock.observe(server_time, sent_s=sent_s)
        if self._clock.now_s() > believed_s + ALARM_SLACK_S:
            self._queue.wake()  # the alarm was set by an estimate that was behind, so it would ring late

    def report(self, *, leaving: bool = False) -> None:
        """Send the shard's metrics."""
        present = ShardGauges(
            shard=self._heartbeat.last.part,
            shard_count=self._heartbeat.last.part_count,
            held=len(self),
            clock_offset_s=time.time() - self._clock.now_s() if self._heartbeat.began else 0.0,  # 0.0: not known yet
            round_trip_s=self._heartbeat.round_trip_s,
        )
        self._reporter.send(report_of(self._registration.name, self.stats, present, leaving=leaving))

    def stop(self) -> None:
        """End the waits of the loops."""
        self._claim_soon.set()
        self._queue.wake()
        self._record_hints.wake()
        self._delivery_hints.wake()

    def drained(self, *, is_handed_back: bool) -> dict[str, int]:
        """Count the timers that are released with the holder."""
        if is_handed_back:
            self.stats.released += len(self)
        return {"held": len(self), **self.stats.counts()}
