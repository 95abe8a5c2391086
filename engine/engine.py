"""Run an engine: its loops, and one turn of each loop."""

import asyncio
import time
from collections.abc import Sequence
from functools import partial

from shardclock_server.engine.batch import CallLimits
from shardclock_server.engine.runner import SignalRunner
from shardclock_server.engine.settings import EngineSettings
from shardclock_server.engine.stats import EngineStats, report_of
from shardclock_server.keepers.keeper import Keeper, KeeperLoop
from shardclock_server.keepers.registration import Registration
from shardclock_server.sql.cluster.holders import Incarnation
from shardclock_server.sql.deliveries.notifications import SIGNALS, notify_of_deliveries
from shardclock_server.sql.dsn import Dsn
from shardclock_server.sql.notification_listener import NOTIFICATION_WAIT_S
from shardclock_server.sql.processes.signals import (
    KEPT_BEGIN,
    Stripe,
    correlate_kept,
    forget_instances,
    forget_messages,
    forget_starts,
)
from shardclock_server.sql.tenant_limits.tenant_limits import count_usage

NOTIFICATION_GAP_S = 0.002  # The shortest time between two turns that are started by notifications.
BUSY_PAUSE_S = 0.004  # The pause after the first turn without a due signal.
IDLE_AFTER_S = 2.0  # After this time without a signal, polls are less frequent.
MAINTENANCE_S = 10.0
DELETE_BATCH = 500  # The largest number of rows that one statement deletes.
HISTORY_BATCH = 5_000  # The largest number of history rows or audit rows that one statement deletes.
USAGE_BATCH = 20  # The number of pairs (tenant, resource) for which one statement counts the usage.
KEPT_BATCH = 10_000  # The largest number of kept messages that one statement correlates.


class Engine(Keeper):
    """Advance the instances in one engine's slots, until the engine is drained or declared dead."""

    def __init__(self, incarnation: Incarnation, settings: EngineSettings, dsn: Dsn | str) -> None:
        self.stats = EngineStats()
        registration = Registration(
            incarnation, settings, dsn, retry_s=settings.signal_poll_s, failures=self.stats.failures
        )
        self._maintenance = registration.session("maintenance")
        super().__init__(registration, settings, self._maintenance)
        self._settings = settings
        self._notifications = registration.listener(SIGNALS)
        self._delivery_notifications = registration.notification_sender(notify_of_deliveries, to="workers")
        stripes = [Stripe(number, settings.signal_stripes) for number in range(settings.signal_stripes)]
        self._runners = [
            SignalRunner(
                registration.session("steps"),
                self.holder,
                self.stats,
                batch=settings.signal_batch,
                log=registration.log,
                stripe=stripe,
                notify_workers=self._delivery_notifications.want,
                calls=CallLimits(settings.calls_depth_max, settings.descendants_max),
            )
            for stripe in stripes
        ]
        self._soon = [asyncio.Event() for _ in stripes]
        # for each stripe: the pause after the next turn without a due signal
        self._pauses_s = [BUSY_PAUSE_S for _ in stripes]
        self._last_signal_s = time.monotonic()
        self._kept = KEPT_BEGIN

    def loops(self) -> Sequence[KeeperLoop]:
        """List the loops of the engine."""
        return [
            *(KeeperLoop("steps", partial(self.step_turn, number), soon) for number, soon in enumerate(self._soon)),
            KeeperLoop("notifications", self.notification_turn),
            KeeperLoop("delivery_notifications", self._delivery_notifications.turn),
            KeeperLoop("maintenance", self.maintenance_turn),
        ]

    def learn_beat(self, *, first: bool) -> None:
        """Poll for signals as soon as this engine is registered in the database."""
        if first:
            self._poll_soon()

    async def step_turn(self, stripe: int) -> float:
        """Run the step loop of a stripe once: process the due signals. There is no pause while signals are due.

        The first pause after a signal is short, because more signals are likely; each turn without a signal doubles the
        pause.
        """
        self._soon[stripe].clear()
        if not self._heartbeat.began:
            return self._settings.signal_poll_s
        if await self._runners[stripe].turn():
            self._last_signal_s = time.monotonic()
            self._pauses_s[stripe] = BUSY_PAUSE_S
            return 0.0
        if time.monotonic() - self._last_signal_s > IDLE_AFTER_S:
            return self._settings.signal_poll_idle_s
        pause_s = min(self._pauses_s[stripe], self._settings.signal_poll_s)
        self._pauses_s[stripe] = 2 * pause_s
        return pause_s

    async def notification_turn(self) -> float:
        """Run the notification loop once: wait for a notification of signals, and poll soon."""
        if await self._notifications.wait(NOTIFICATION_WAIT_S):
            self._notifications.forget()
            self._poll_soon()
        return NOTIFICATION_GAP_S

    async def maintenance_turn(self) -> float:
        """Run the maintenance loop once: correlate kept messages, and delete old rows.

        errors:  the first error of a task, raised after all other tasks have run
        """
        has_more, failures = False, []
        for task in (
            self._correlate_kept,
            self._forget_messages,
            self._forget_instances,
            self._forget_starts,
            self._count_usage,
        ):
            try:
                has_more |= await task()
            except Exception as error:  # noqa: BLE001 - an error of one task must not stop all others
                failures.append(error)
        if failures:
            raise failures[0]
        return 0.0 if has_more else MAINTENANCE_S

    # The maintenance tasks; each task returns whether work is left.

    async def _correlate_kept(self) -> bool:
        self._kept = await correlate_kept(self._maintenance, self._kept, batch=KEPT_BATCH)
        return self._kept != KEPT_BEGIN

    async def _forget_messages(self) -> bool:
        return await forget_messages(self._maintenance, batch=DELETE_BATCH) == DELETE_BATCH

    async def _forget_instances(self) -> bool:
        return await forget_instances(
            self._maintenance, kept_s=self._settings.instances_kept_s, batch=DELETE_BATCH, parts=HISTORY_BATCH
        )

    async def _forget_starts(self) -> bool:
        return await forget_starts(self._maintenance, batch=DELETE_BATCH) == DELETE_BATCH

    async def _count_usage(self) -> bool:
        return await count_usage(self._maintenance, age_s=MAINTENANCE_S, batch=USAGE_BATCH) == USAGE_BATCH

    def report(self, *, leaving: bool = False) -> None:
        """Send the engine's metrics."""
        self._reporter.send(report_of(self._registration.name, self.stats, leaving=leaving))

    def stop(self) -> None:
        """Wake the loops, so that they stop. Current batches are still written; other engines process later signals."""
        self._poll_soon()
        self._delivery_notifications.wake()

    def drained(self, *, is_handed_back: bool) -> dict[str, int]:  # noqa: ARG002 - an engine holds nothing
        """Return the counts of the engine."""
        return self.stats.counts()

    def _poll_soon(self) -> None:
        for soon in self._soon:
            soon.set()
