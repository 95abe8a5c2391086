"""One engine: its loops, and one turn of each loop."""

import asyncio
import time
from collections.abc import Sequence
from functools import partial

from shardclock_server.engine.batches import CallLimits
from shardclock_server.engine.runner import SignalRunner
from shardclock_server.engine.settings import EngineSettings
from shardclock_server.engine.stats import EngineStats, report_of
from shardclock_server.keepers.keeper import Keeper, Loop
from shardclock_server.keepers.registration import Registration
from shardclock_server.sql.cluster.holders import Incarnation
from shardclock_server.sql.deliveries.hints import SIGNALS, send_delivery_hint
from shardclock_server.sql.dsn import Dsn
from shardclock_server.sql.hints import HINT_S
from shardclock_server.sql.processes.signals import (
    KEPT_BEGIN,
    Stripe,
    correlate_kept,
    forget_instances,
    forget_messages,
    forget_starts,
)
from shardclock_server.sql.tenants.tenants import count_usage

HINT_GAP_S = 0.002  # between two turns that hints ask for
BUSY_PAUSE_S = 0.004  # after the first turn in which nothing was due
IDLE_AFTER_S = 2.0  # without a signal for so long, an engine looks more seldom
TEND_S = 10.0
TEND_BATCH = 500  # rows that one statement forgets
HISTORY_BATCH = 5_000  # steps of forgotten instances that one statement deletes, and as many acts
USAGE_BATCH = 20  # resources of tenants that one statement counts, each up to a quota
KEPT_BATCH = 10_000  # kept messages for which one statement looks who waits


class Engine(Keeper):
    """Advance the instances of one engine's slots, until it is drained or declared dead."""

    def __init__(self, incarnation: Incarnation, settings: EngineSettings, dsn: Dsn | str) -> None:
        self.stats = EngineStats()
        registration = Registration(
            incarnation, settings, dsn, retry_s=settings.signal_poll_s, failures=self.stats.failures
        )
        self._tends = registration.session("tends")
        super().__init__(registration, settings, self._tends)
        self._settings = settings
        self._hints = registration.listener(SIGNALS)
        self._delivery_hints = registration.hint_sender(send_delivery_hint, to="workers")
        stripes = [Stripe(number, settings.signal_stripes) for number in range(settings.signal_stripes)]
        self._runners = [
            SignalRunner(
                registration.session("steps"),
                self.holder,
                self.stats,
                batch=settings.signal_batch,
                log=registration.log,
                stripe=stripe,
                tell_workers=self._delivery_hints.want,
                calls=CallLimits(settings.calls_depth_max, settings.descendants_max),
            )
            for stripe in stripes
        ]
        self._soon = [asyncio.Event() for _ in stripes]
        self._pauses_s = [BUSY_PAUSE_S for _ in stripes]  # after the next turn in which nothing is due
        self._last_signal_s = time.monotonic()
        self._kept = KEPT_BEGIN

    def loops(self) -> Sequence[Loop]:
        """List the loops of the engine."""
        return [
            *(Loop("steps", partial(self.step_turn, number), soon) for number, soon in enumerate(self._soon)),
            Loop("hints", self.hint_turn),
            Loop("delivery_hints", self._delivery_hints.turn),
            Loop("tends", self.tend_turn),
        ]

    def learn_beat(self, *, first: bool) -> None:
        """Look for signals at once when the holder is registered."""
        if first:
            self._look_soon()

    async def step_turn(self, stripe: int) -> float:
        """Make one turn of a stripe's step loop: take the signals that are due; no pause if something came of it.

        While signals come, more are likely to: the pause is short at first, and doubles with each turn in vain.
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

    async def hint_turn(self) -> float:
        """Make one turn of the hint loop: wait for a hint that there are signals, and look soon."""
        if await self._hints.wait(HINT_S):
            self._hints.forget()
            self._look_soon()
        return HINT_GAP_S

    async def tend_turn(self) -> float:
        """Make one turn of the tend loop: give kept messages to those that wait, and forget what is over.

        errors:  that of the first chore that has failed, when the others are done
        """
        has_more, failures = False, []
        for chore in (
            self._give_kept,
            self._forget_messages,
            self._forget_instances,
            self._forget_starts,
            self._count_usage,
        ):
            try:
                has_more |= await chore()
            except Exception as error:  # noqa: BLE001 - whatever one chore meets, the others are done
                failures.append(error)
        if failures:
            raise failures[0]
        return 0.0 if has_more else TEND_S

    # The chores of a turn; each says whether there is more to do.

    async def _give_kept(self) -> bool:
        self._kept = await correlate_kept(self._tends, self._kept, batch=KEPT_BATCH)
        return self._kept != KEPT_BEGIN

    async def _forget_messages(self) -> bool:
        return await forget_messages(self._tends, batch=TEND_BATCH) == TEND_BATCH

    async def _forget_instances(self) -> bool:
        return await forget_instances(
            self._tends, kept_s=self._settings.instances_kept_s, batch=TEND_BATCH, parts=HISTORY_BATCH
        )

    async def _forget_starts(self) -> bool:
        return await forget_starts(self._tends, batch=TEND_BATCH) == TEND_BATCH

    async def _count_usage(self) -> bool:
        return await count_usage(self._tends, age_s=TEND_S, batch=USAGE_BATCH) == USAGE_BATCH

    def report(self, *, leaving: bool = False) -> None:
        """Send the engine's metrics."""
        self._reporter.send(report_of(self._registration.name, self.stats, leaving=leaving))

    def stop(self) -> None:
        """End the waits of the loops: the batches in flight are written, the rest is another engine's."""
        self._look_soon()
        self._delivery_hints.wake()

    def drained(self, *, is_handed_back: bool) -> dict[str, int]:  # noqa: ARG002 - an engine holds nothing
        """Return the counts of the engine."""
        return self.stats.counts()

    def _look_soon(self) -> None:
        for soon in self._soon:
            soon.set()
