"""One shard at work: the loops, each kept apart from one turn of it."""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime

import structlog

from metrics.families import LAG_EDGES
from metrics.report import Reporter
from shards.claiming import Pace
from shards.clock import PostgresClock
from shards.firing import firing_of, is_unplanned, leftover, planning_of
from shards.pulse import HolderEnded, Pulse
from shards.queue import TimerQueue
from shards.settings import ShardSettings
from shards.tally import Present, Tally, report_of
from sql.claims import Walk, fire_due, held_by, plan_schedules, set_aside, still_held, take_due
from sql.holders import Incarnation, end_holders
from sql.session import QUEUE_PLANS, Session, StatementRefused, StoreUnavailable
from timers.model import ClaimedTimer
from timers.refusal import InvalidTimer

# What somebody else has locked is tried again this much later: a client's transaction usually lasts less.
LOCKED_RETRY_S = 0.05
# SQLSTATE classes that a timer's own data cause (a value out of range, a check, a limit); anything else may be mended
# without it.
DATA_AT_FAULT = ("22", "23", "54")
# After a walk that Postgres refused, overdue timers go the long way for a while, where one bad row fails alone.
UNFUSED_S = 10.0
# Postgres's time may turn out to be this much later than believed before an alarm is set anew; alarms are no finer.
ALARM_SLACK_S = 0.001
# A statement in flight gets this long to end when the shard is asked to go; then it is cut off.
DRAIN_S = 0.7
# And handing back this long: without Postgres the leases run out by themselves.
HAND_BACK_S = 1.0
REPORT_S = 1.0  # between two reports to this node's exporter


class Shard:
    """Lease and fire the timers of one shard, until drained or ended."""

    def __init__(self, incarnation: Incarnation, settings: ShardSettings) -> None:
        self.holder = incarnation.holder
        self.tally = Tally()
        self._settings = settings
        self._log = structlog.get_logger().bind(holder=f"{self.holder:016x}")
        # Beside the pulse's, two connections: a claim over a long backlog must not keep a due timer from firing.
        self._claims, self._fires = (
            Session(
                settings.dsn,
                application=f"shardclock shard {use} {self.holder:016x}",
                timeout_s=settings.statement_timeout_s,
                plans=QUEUE_PLANS,
            )
            for use in ("claims", "fires")
        )
        self._pulse = Pulse(incarnation, settings)
        self._clock = PostgresClock()
        self._queue = TimerQueue()
        self._pace = Pace(settings)
        self._stopping = asyncio.Event()
        self._claim_soon = asyncio.Event()
        self._fuse_from = 0.0
        self._missed_answer = False
        self._reporter = Reporter(settings.metrics_socket)

    def __len__(self) -> int:
        """Count the timers held in memory."""
        return len(self._queue)

    async def run(self) -> None:
        """Register, then beat, claim and fire until drained.

        errors:  HolderEnded  another took over: stop, and let the coordinator start anew
        """
        loops = [
            asyncio.create_task(work, name=name)
            for name, work in (
                ("beats", self._until_stopped("beats", self.beat_turn, self._stopping)),
                ("claims", self._until_stopped("claims", self.claim_turn, self._claim_soon)),
                ("fires", self._until_stopped("fires", self.fire_turn, self._stopping)),
                ("reports", self._report_until_stopped()),
            )
        ]
        try:
            await asyncio.gather(*loops)
        finally:
            self._stop()
            _, stuck = await asyncio.wait(loops, timeout=DRAIN_S)
            for loop in stuck:
                loop.cancel()
            await asyncio.gather(*stuck, return_exceptions=True)
            await self._hand_back()

    async def drain(self) -> None:
        """Ask the loops to end; `run` then hands back what is held, all within a second."""
        self._stop()

    async def beat_turn(self) -> float:
        """Make one turn of the beat loop: a sign of life.

        units:   the seconds that the next turn can wait come back, as from every turn
        """
        first = not self._pulse.began
        await self._pulse.beat(held=len(self._queue))
        self._observe(self._pulse.last.server_time, sent_at=self._pulse.sent_at)
        if first:
            self._claim_soon.set()
        return self._settings.heartbeat_s

    async def claim_turn(self) -> float:
        """Make one turn of the claim loop: the walks, once the holder is known; at once again if they leave some."""
        self._claim_soon.clear()
        if not self._pulse.began:
            return self._settings.poll_s
        await self._recall()
        busy = False
        for walk in self._pace.walks(held=len(self._queue), now_s=time.monotonic()):
            busy |= await self._walk(walk)
        return 0.0 if busy else self._pace.pause_s

    async def fire_turn(self) -> float:
        """Make one turn of the fire loop: wait for the soonest timer, fire what is due; the wait is in here."""
        await self._queue.until_due(self._clock.now_s)
        due = self._queue.pop_due(self._clock.now_s(), self._settings.fire_batch)
        if due:
            try:
                await self._fire(due)
            except BaseException:
                # The outcome is unknown. Sending the same again decides it: what was fired is gone.
                self._queue.add(due)
                raise
        return 0.0

    async def _recall(self) -> None:
        """Learn what we lease if a claim's answer was lost: nobody else may fire it before the lease ends."""
        if self._missed_answer:
            horizon_s, lease_s = self._settings.horizon_s, self._settings.lease_s
            self._queue.add(await held_by(self._claims, self.holder, horizon_s=horizon_s, lease_s=lease_s))
            self._missed_answer = False

    async def _walk(self, walk: Walk) -> bool:
        settings, sent_at = self._settings, time.monotonic()
        measured = self.tally.lateness.measures(walk, behind=self._pace.behind)
        try:
            taken = await take_due(
                self._claims,
                self.holder,
                walk,
                lease_s=settings.lease_s,
                fuse=sent_at >= self._fuse_from,
                lag_edges=LAG_EDGES if measured else None,
            )
        except StatementRefused:
            self._fuse_from = time.monotonic() + UNFUSED_S
            raise
        except StoreUnavailable:
            self._missed_answer = True
            self._pace.fail(now_s=time.monotonic())
            raise
        self._observe(taken.server_time, sent_at=sent_at)
        self._queue.add(taken.claimed)
        self.tally.take(walk, taken, measured=measured)
        now_s = time.monotonic()
        self._pace.rate(taken.fired, now_s=now_s)
        return self._pace.learn(walk, taken, now_s=now_s)

    async def _fire(self, timers: Sequence[ClaimedTimer]) -> None:
        try:
            await self._plan([timer for timer in timers if is_unplanned(timer)])
            await self._fire_whole([timer for timer in timers if not is_unplanned(timer)])
        except (StatementRefused, InvalidTimer) as error:
            if len(timers) == 1:
                await self._refuse(timers[0], error)
                return
            middle = len(timers) // 2
            await self._fire(timers[:middle])
            await self._fire(timers[middle:])

    async def _plan(self, timers: Sequence[ClaimedTimer]) -> None:
        """Give schedules their first date; a later claim takes them when it comes."""
        if timers:
            planned = await plan_schedules(self._fires, self.holder, [planning_of(timer) for timer in timers])
            self.tally.planned += len(planned)

    async def _fire_whole(self, timers: Sequence[ClaimedTimer]) -> None:
        if not timers:
            return
        now, sent_at = self._clock.now(), time.monotonic()
        firings = [firing_of(timer, now) for timer in timers]
        fired = await fire_due(self._fires, self.holder, firings, lag_edges=LAG_EDGES)
        self._observe(fired.server_time, sent_at=sent_at)
        self.tally.fire(firings, fired)
        self._pace.rate(sum(timer.schedule is None for timer in timers), now_s=time.monotonic())
        if any(firing.next and firing.next.due_date <= now for firing in firings):
            self._claim_soon.set()  # a schedule that catches up one by one need not wait for the next poll each time
        if len(fired.timer_keys) < len(timers):
            left = leftover(timers, fired)
            self.tally.early += len(left.early)
            self._queue.add(left.early)
            await self._explain(left.unexplained)

    async def _refuse(self, timer: ClaimedTimer, error: StatementRefused | InvalidTimer) -> None:
        """Let a timer that can't be fired fail alone: pause it if it is at fault, else wait for its lease to end."""
        self.tally.refused += 1
        self._log.error("timer refused", timer_key=timer.timer_key, error=_one_line(error))
        if isinstance(error, InvalidTimer) or error.sqlstate.startswith(DATA_AT_FAULT):
            await set_aside(self._fires, self.holder, timer.timer_key, why=str(error))

    async def _explain(self, timer_keys: Sequence[int]) -> None:
        """Hold on to the timers that somebody has locked; let go of those that are no longer ours."""
        held = await still_held(self._fires, self.holder, timer_keys) if timer_keys else []
        self.tally.locked += len(held)
        self.tally.fenced += len(timer_keys) - len(held)
        self._queue.add(held, not_before_s=self._clock.now_s() + LOCKED_RETRY_S)

    def _observe(self, server_time: datetime, *, sent_at: float) -> None:
        believed_s = self._clock.now_s()
        self._clock.observe(server_time, sent_at=sent_at)
        if self._clock.now_s() > believed_s + ALARM_SLACK_S:
            self._queue.wake()  # its alarm was set by a clock that was behind

    async def _until_stopped(self, name: str, turn: Callable[[], Awaitable[float]], sooner: asyncio.Event) -> None:
        """Take turns until asked to stop; a turn that fails is logged, and the next one waits a little longer."""
        failures = 0
        while not self._stopping.is_set():
            try:
                pause_s = await turn()
                if failures:
                    self._log.info("going again", loop=name, after_failures=failures)
                failures = 0
            except HolderEnded:
                raise
            except Exception as error:  # noqa: BLE001 - the top of a loop
                failures += 1
                self.tally.failures[name] += 1
                pause_s = self._retry_s(failures)
                if failures == 1:
                    self._log.warning("turn failed", loop=name, error=_one_line(error))
            await self._pause(pause_s, sooner)

    async def _report_until_stopped(self) -> None:
        while not self._stopping.is_set():
            self._report()
            await self._pause(REPORT_S, self._stopping)

    def _report(self, *, leaving: bool = False) -> None:
        present = Present(
            shard=self._pulse.last.shard,
            shard_count=self._pulse.last.shard_count,
            held=len(self._queue),
            clock_offset_s=time.time() - self._clock.now_s() if self._pulse.began else 0.0,  # unknown as yet
            round_trip_s=self._pulse.round_trip_s,
        )
        self._reporter.send(report_of(f"{self.holder:016x}", self.tally, present, leaving=leaving))

    async def _pause(self, pause_s: float, sooner: asyncio.Event) -> None:
        if pause_s <= 0:
            await asyncio.sleep(0)
            return
        try:
            async with asyncio.timeout(pause_s):
                await sooner.wait()
        except TimeoutError:
            return

    def _retry_s(self, failures: int) -> float:
        limit_s = min(self._settings.poll_s * 2.0 ** min(failures, 10), self._settings.retry_max_s)
        return limit_s * random.uniform(0.5, 1.0)  # noqa: S311 - jitter, so that shards don't return as one

    def _stop(self) -> None:
        self._stopping.set()
        self._claim_soon.set()
        self._queue.wake()

    async def _hand_back(self) -> None:
        """End this holder, which frees all it holds at once; without Postgres the leases run out by themselves."""
        try:
            async with asyncio.timeout(HAND_BACK_S):
                await end_holders(self._claims, [self.holder], why="drained")
            self.tally.released += len(self._queue)
        except (StoreUnavailable, TimeoutError) as error:
            self._log.warning("could not hand back", held=len(self._queue), error=_one_line(error))
        for connection in (self._claims, self._fires, self._pulse):
            await connection.close()
        self._report(leaving=True)
        self._reporter.close()
        self._log.info("drained", held=len(self._queue), **self.tally.counts())


def _one_line(error: BaseException) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())}"[:300]
