"""One shard: its loops, and one iteration of each loop."""

import asyncio
import time
from collections.abc import Sequence
from datetime import datetime, timedelta
from functools import partial

from shardclock.reason import reason_of
from shardclock_server.keepers.clock import PostgresClock
from shardclock_server.keepers.keeper import Keeper, KeeperLoop
from shardclock_server.keepers.registration import Registration
from shardclock_server.shards.families import LAG_EDGES
from shardclock_server.shards.firing import (
    firing_of,
    held_and_forgotten,
    is_unplanned,
    leftover,
    planning_of,
    refusal_of,
)
from shardclock_server.shards.hand_over_sender import HandOverSender
from shardclock_server.shards.locked import LockedTimers
from shardclock_server.shards.maintenance import ShardMaintenance
from shardclock_server.shards.queue import TimerQueue
from shardclock_server.shards.scan_planner import PlannedScan, ScanPlanner
from shardclock_server.shards.settings import ShardSettings
from shardclock_server.shards.stats import ShardGauges, ShardStats, report_of
from shardclock_server.sql.bisection import values_at_fault, write_in_halves
from shardclock_server.sql.claims.claim import Scan, ScanResult, claim_due, leased_by, still_leased
from shardclock_server.sql.claims.handed import Grants
from shardclock_server.sql.claims.notifications import DUE
from shardclock_server.sql.cluster.holders import Incarnation
from shardclock_server.sql.deliveries.notifications import notify_of_deliveries
from shardclock_server.sql.deliveries.settle import SETTLE_PLANS
from shardclock_server.sql.dsn import Dsn
from shardclock_server.sql.firing.fire import fire_due, pause_faulty, plan_schedules, prepare_to_fire
from shardclock_server.sql.log.notifications import notify_of_records
from shardclock_server.sql.notification_listener import NOTIFICATION_WAIT_S
from shardclock_server.sql.session import StatementRefused, StoreTooSlow, StoreUnavailable
from shardclock_server.timers.model import ClaimedTimer
from shardclock_server.timers.refusal import InvalidTimer

# The SQLSTATE of a duplicate key. The sequence of keys causes this error, not the refused timer:
# docs/decisions/0032-key-and-moment.md.
KEY_TAKEN = "23505"
# After Postgres has refused a scan, the scans within this time only lease timers. One bad row then can't prevent the
# firing of other timers.
CLAIM_ONLY_S = 10.0
# The precision of the alarm for the soonest timer. If the estimate of Postgres's time changes by more than this, the
# alarm is set again.
ALARM_SLACK_S = 0.001
# A notification starts a claim. The next notification starts a claim after at least NOTIFIED_S, and after at least
# NOTIFIED_SHARE times the duration of the last claim. So claims after notifications take at most a quarter of a shard's
# time.
NOTIFIED_S, NOTIFIED_SHARE = 0.01, 4.0


class Shard(Keeper):
    """Lease and fire the timers of one shard, until the shard is drained or declared dead."""

    gathers_starts = True  # Starts of jobs that are due within milliseconds fire together.
    measures_lags = True  # Scans measure lags for the metrics.

    def __init__(
        self, incarnation: Incarnation, settings: ShardSettings, dsn: Dsn | str, *, clock: PostgresClock | None = None
    ) -> None:
        self.stats = ShardStats()
        registration = Registration(incarnation, settings, dsn, retry_s=settings.poll_s, failures=self.stats.failures)
        # Claims and firings have separate connections: a claim over a long backlog must not delay a due timer.
        self._claims, self._fires = registration.session("claims"), registration.session("fires")
        super().__init__(registration, settings, self._claims)
        self._settings = settings
        # A client that schedules a timer for now notifies the shards, so that the timer does not wait for a poll.
        self._notifications = registration.listener(DUE)
        self._record_notifications = registration.notification_sender(notify_of_records, to="consumers")
        self._delivery_notifications = registration.notification_sender(notify_of_deliveries, to="workers")
        seldom = registration.session("maintenance", SETTLE_PLANS)
        self._hand_over = HandOverSender(seldom, self._delivery_notifications)
        self._clock = clock or PostgresClock()
        self._queue = TimerQueue(gathers_starts=self.gathers_starts)
        self._locked = LockedTimers(lease_s=settings.lease_s, timers_max=settings.queue_max)
        self._planner = ScanPlanner(settings)
        self._claim_soon, self._claim_took_s = asyncio.Event(), 0.0
        self._maintenance = ShardMaintenance(
            seldom, registration.heartbeat, self._hand_over, claim_soon=self._claim_soon, stats=self.stats
        )
        self._fire_batch = settings.fire_batch
        self._fire_overdue_from = 0.0
        self._answer_lost = False
        self._registered, self._is_prepared = asyncio.Event(), False

    def __len__(self) -> int:
        """Count the timers held in memory."""
        return len(self._queue) + len(self._locked)

    def loops(self) -> Sequence[KeeperLoop]:
        """List the loops of the shard."""
        return [
            KeeperLoop("claims", self.claim_turn, self._claim_soon),
            KeeperLoop("fires", self.fire_turn, self._registered),
            KeeperLoop("notifications", self.notification_turn),
            KeeperLoop("record_notifications", self._record_notifications.turn),
            KeeperLoop("delivery_notifications", self._delivery_notifications.turn),
            KeeperLoop("maintenance", self._maintenance.turn, self._hand_over.asked),
        ]

    def learn_beat(self, *, first: bool) -> None:
        """Update Postgres's time and the list of local workers; claim as soon as the holder is registered."""
        self._hand_over.learn(self._heartbeat.last.workers)
        self._observe(self._heartbeat.last.server_time, sent_s=self._heartbeat.sent_s)
        if first:
            self._registered.set()
            self._claim_soon.set()

    async def claim_turn(self) -> float:
        """Run the claim loop once: scan if the holder is registered; return 0 if more timers may be due now."""
        self._claim_soon.clear()
        if not self._heartbeat.began:
            return self._settings.poll_s
        await self._recall()
        busy, began_s = False, time.monotonic()
        for planned in self._planner.scans(held=len(self._queue), now_s=began_s):
            busy |= await self._scan(planned)
        self._claim_took_s = time.monotonic() - began_s
        return 0.0 if busy else self._planner.pause_s

    async def notification_turn(self) -> float:
        """Run the notification loop once: wait for a notification, then wake the claim loop."""
        if not self._heartbeat.began:
            return NOTIFICATION_WAIT_S
        if await self._notifications.wait(NOTIFICATION_WAIT_S):
            self._notifications.forget()
            self._claim_soon.set()
        return max(NOTIFIED_S, NOTIFIED_SHARE * self._claim_took_s)

    async def fire_turn(self) -> float:
        """Run the fire loop once: wait until the soonest timer is due, then fire all due timers.

        After the registration, the first iteration opens the connection and plans the statement. If the first firing
        did this work, the first timer would be at least 50 ms late.
        """
        if not self._heartbeat.began:
            return self._settings.poll_s
        if not self._is_prepared:
            await prepare_to_fire(self._fires, self.holder)
            self._is_prepared = True
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
                # The outcome is unknown. A repeated statement is safe: a timer that has fired has no row.
                self._queue.add(due)
                # A batch with large payloads may take too long, so the next batch is smaller.
                if isinstance(error, StoreTooSlow):
                    self._fire_batch = max(1, len(due) // 2)
                raise
            self._fire_batch = min(self._settings.fire_batch, 2 * self._fire_batch)

    async def _wait_for_release(self, due: Sequence[ClaimedTimer]) -> None:
        """Retry due timers after the next heartbeat, if a hold of the database prevents their firing.

        The hold may be over by then. Without a retry these timers would wait until their leases expire.
        """
        now_s = self._clock.now_s()
        held, forgotten = held_and_forgotten(due, now_s=now_s, lease_s=self._settings.lease_s)
        self._queue.add(held, not_before_s=now_s + self._settings.heartbeat_s)
        await self._sort_out(forgotten, [])

    async def _recall(self) -> None:
        """Read the timers that this shard has leased, after the result of a claim was lost.

        No other shard can fire these timers before their leases expire.
        """
        if self._answer_lost:
            horizon_s, lease_s = self._settings.horizon_s, self._settings.lease_s
            self._queue.add(await leased_by(self._claims, self.holder, horizon_s=horizon_s, lease_s=lease_s))
            self._answer_lost = False

    async def _scan(self, planned: PlannedScan) -> bool:
        sent_s = time.monotonic()
        if (scan := self._planner.begin(planned, now_s=sent_s)) is None:
            return False
        measured = self.stats.lag_histograms.measures(scan, has_backlog=self._planner.has_backlog)
        lag_edges = LAG_EDGES if measured and self.measures_lags else None
        try:
            taken = await self._hand_over.during(partial(self._claim, scan, lag_edges, sent_s=sent_s))
        except StoreUnavailable:
            self._answer_lost = True
            self._planner.fail(planned, now_s=time.monotonic())
            raise
        self._observe(taken.server_time, sent_s=sent_s)
        self._queue.add(taken.claimed)
        self.stats.count_scan(scan, taken, measured=measured)
        self._record_notifications.want(taken.fired + taken.skipped)
        now_s = time.monotonic()
        self._planner.rate(taken.fired, now_s=now_s)
        return self._planner.learn(planned, taken, now_s=now_s)

    async def _claim(
        self, scan: Scan, lag_edges: Sequence[timedelta] | None, grants: Grants, *, sent_s: float
    ) -> ScanResult:
        fire_overdue, lease_s = sent_s >= self._fire_overdue_from, self._settings.lease_s
        claim = partial(claim_due, self._claims, self.holder, scan, lease_s=lease_s)
        try:
            return await claim(fire_overdue=fire_overdue, grants=grants, lag_edges=lag_edges)
        except StatementRefused:
            self._fire_overdue_from = time.monotonic() + CLAIM_ONLY_S
            raise

    async def _fire(self, timers: Sequence[ClaimedTimer]) -> None:
        await write_in_halves(timers, self._fire_at_once, self._refuse, refusal_of)

    async def _fire_at_once(self, timers: Sequence[ClaimedTimer]) -> None:
        await self._plan([timer for timer in timers if is_unplanned(timer)])
        await self._fire_whole([timer for timer in timers if not is_unplanned(timer)])

    async def _plan(self, timers: Sequence[ClaimedTimer]) -> None:
        """Write the first due date of new schedules; a later claim leases each schedule shortly before this date."""
        if timers:
            planned = await plan_schedules(self._fires, self.holder, [planning_of(timer) for timer in timers])
            self.stats.planned += len(planned)
            await self._sort_out(timers, [timer.timer_key for timer in timers if timer.timer_key not in planned])

    async def _fire_whole(self, timers: Sequence[ClaimedTimer]) -> None:
        if not timers:
            return
        now, sent_s = self._clock.now(), time.monotonic()
        firings = [firing_of(timer, now) for timer in timers]
        fired = await self._hand_over.during(
            lambda grants: fire_due(self._fires, self.holder, firings, grants=grants, lag_edges=LAG_EDGES)
        )
        self._observe(fired.server_time, sent_s=sent_s)
        self.stats.count_firing(firings, fired)
        self._record_notifications.want(len(fired.timer_keys))
        self._planner.rate(sum(firing.suits_claims for firing in firings), now_s=time.monotonic())
        if any(firing.next and firing.next.due_date <= now for firing in firings):
            # Without an early claim, a schedule with several missed occurrences would wait for the next poll after each
            # firing.
            self._claim_soon.set()
        left = leftover(timers, fired)
        self.stats.early += len(left.early)
        self._queue.add(left.early)
        await self._sort_out(timers, left.unexplained)

    async def _refuse(self, timer: ClaimedTimer, error: Exception) -> None:
        """Remove from the queue a timer that can't be fired.

        Pause the timer if its data are the cause, otherwise release it.
        """
        self.stats.refused += 1
        await self._sort_out([timer], [])  # this also retries the timers that the same transaction had locked
        refused = values_at_fault(error)
        is_at_fault = isinstance(error, InvalidTimer) or (refused is not None and refused.sqlstate != KEY_TAKEN)
        paused = is_at_fault and await pause_faulty(self._fires, self.holder, timer, why=str(error))
        self._log.error("timer refused", timer_key=timer.timer_key, paused=paused, error=reason_of(error))

    async def _sort_out(self, sent: Sequence[ClaimedTimer], timer_keys: Sequence[int]) -> None:
        """Read why timers did not fire.

        Retry the timers with locked rows; drop the timers that this shard no longer leases.
        """
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
            self._queue.wake()  # the estimate was too low, so the alarm would come too late

    async def break_off(self) -> None:
        """Close the connections to workers."""
        self._hand_over.close()

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
        """Wake the loops, so that they stop."""
        self._registered.set()
        self._claim_soon.set()
        self._queue.wake()
        self._record_notifications.wake()
        self._delivery_notifications.wake()
        self._hand_over.asked.set()

    def drained(self, *, is_handed_back: bool) -> dict[str, int]:
        """Count the timers that are released with the holder."""
        if is_handed_back:
            self.stats.released += len(self)
        return {"held": len(self), **self.stats.counts()}
