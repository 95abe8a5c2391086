"""One worker: its loops, and one turn of each loop."""

import asyncio
import time
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from shardclock_server.jobs.spec import JobSpec
from shardclock_server.keepers.clock import seconds_of
from shardclock_server.keepers.registration import Registration
from shardclock_server.metrics.report import Reporter
from shardclock_server.sql.cluster.holders import Incarnation
from shardclock_server.sql.deliveries.claim import (
    Claim,
    ClaimedDelivery,
    DeliveryScan,
    Lane,
    claim_deliveries,
    renew_deliveries,
)
from shardclock_server.sql.deliveries.hints import DELIVERIES, JOBS
from shardclock_server.sql.deliveries.settle import SETTLE_PLANS, Settlement
from shardclock_server.sql.dsn import Dsn
from shardclock_server.sql.hints import HINT_S
from shardclock_server.sql.session import Session, StoreUnavailable
from shardclock_server.workers.claim_planner import ClaimPlanner
from shardclock_server.workers.context import WorkerContext
from shardclock_server.workers.endpoints import Endpoints
from shardclock_server.workers.hand import Hand
from shardclock_server.workers.handler import HandlerSpec
from shardclock_server.workers.handlers import Handlers
from shardclock_server.workers.lane_finder import LaneFinder
from shardclock_server.workers.process import HandlerProcess
from shardclock_server.workers.runs.needs import Needs
from shardclock_server.workers.runs.process import RunProcess
from shardclock_server.workers.runs.runner import JobRunner, RunLimits
from shardclock_server.workers.settings import WorkerSettings
from shardclock_server.workers.settler import Settler
from shardclock_server.workers.stats import WorkerGauges, WorkerStats, report_of
from shardclock_server.workers.surroundings import Surroundings

CALLS_END_S = 1.0  # how long calls that are under way may take to end at a drain
HINT_GAP_S = 0.004  # between two claims that hints ask for
SEARCH_TIMEOUT_S = 30.0  # a search may read past millions of settled deliveries that can't be removed
UNSETTLED_MAX = 5_000  # outcomes that wait to be settled: with more, nothing is claimed
REFRESH_S = 1.0  # between two looks for endpoints that must be read, if nobody asks
RENEWED_MAX = 1_000  # leases that one statement renews, so that a statement which takes too long is not the whole hand


class Worker:
    """Call the targets of due deliveries, until the worker is drained or declared dead."""

    def __init__(
        self,
        incarnation: Incarnation,
        settings: WorkerSettings,
        handlers: Sequence[HandlerSpec],
        dsn: Dsn | str,
        *,
        jobs: Sequence[JobSpec] = (),
        start: Callable[[HandlerSpec], HandlerProcess],
        start_run: Callable[[Needs], RunProcess],
        surroundings: Surroundings | None = None,
    ) -> None:
        around = surroundings or Surroundings()
        self.holder = incarnation.holder
        self.stats = WorkerStats(spec.target for spec in handlers)
        self._settings = settings
        registration = Registration(
            incarnation, settings, dsn, retry_s=settings.delivery_poll_s, failures=self.stats.failures
        )
        self._registration, self._log, session = registration, registration.log, registration.session
        self._heartbeat, self._loops = registration.heartbeat, registration.loops
        self._claims, self._renewals, self._lookups = session("claims"), session("renewals"), session("endpoints")
        self._searches = session("searches", timeout_s=SEARCH_TIMEOUT_S)
        self._hints = registration.listener(DELIVERIES)
        self._clock, self._hand = around.clock, Hand[ClaimedDelivery]()
        self._settler = Settler(
            session("settles", SETTLE_PLANS),
            self.holder,
            batch=settings.delivery_batch,
            settled=self._forget,
            refused=lambda: registration.count_failure("settles"),
            log=self._log,
        )
        context = WorkerContext(
            settle=self._settle_soon,
            may_call=self._may_call,
            held=self._held,
            claim_again=self._claim_again,
            now=self._clock.now,
            stats=self.stats,
            broken=self._break_off,
            jitter=around.jitter,
        )
        self._handlers = Handlers(handlers, context, start=start)
        self._endpoints = Endpoints(context, http=settings.webhook_http, networks=settings.networks, send=around.send)
        limits = RunLimits(settings.run_places, settings.run_lease_s, settings.delivery_poll_s)
        self._runner = JobRunner(
            self.holder, jobs, limits, start=start_run, session=session, log=self._log, surroundings=around
        )
        self._claim_soon, self._search_soon = asyncio.Event(), asyncio.Event()
        self._is_full = False  # something has no place for another delivery
        self._planner, self._reporter = ClaimPlanner(), Reporter(settings.metrics_socket)
        self._finder = LaneFinder(self._planner, self._searches)

    def __len__(self) -> int:
        """Count the deliveries in hand, with those that are runs of jobs."""
        return len(self._hand) + len(self._runner)

    async def run(self) -> None:
        """Register the holder, then run all loops until drained.

        errors:  HolderEnded  the worker was declared dead: stop, and let the coordinator start a new one
                 any other    a fault of ours ended a call
        """
        stopping = self._loops.stopping
        self._handlers.begin()
        try:
            await self._loops.run(
                {
                    "beats": self._loops.until_stopped("beats", self.beat_turn, stopping),
                    "claims": self._loops.until_stopped("claims", self.claim_turn, self._claim_soon),
                    "searches": self._loops.until_stopped("searches", self.search_turn, self._search_soon),
                    "hints": self._loops.until_stopped("hints", self.hint_turn, stopping),
                    "settles": self._loops.until_stopped("settles", self._settler.turn, self._settler.many),
                    "renewals": self._loops.until_stopped("renewals", self.renew_turn, stopping),
                    "endpoints": self._loops.until_stopped("endpoints", self.endpoint_turn, self._endpoints.asked),
                    "reports": self._loops.report(self._report),
                    **self._loops_of_jobs(),
                },
                stop=self._stop,
            )
            await self._let_calls_end()
        finally:
            await self._handlers.close()
            await self._hand_back()

    async def drain(self) -> None:
        """Ask the loops to end; `run` then lets calls end, for a second, and hands back the rest."""
        self._stop()

    async def beat_turn(self) -> float:
        """Make one turn of the beat loop: send a sign of life.

        units:   returns the seconds to wait before the next turn, as every turn does
        """
        first = not self._heartbeat.began
        await self._heartbeat.beat(held=len(self))
        self._clock.observe(self._heartbeat.last.server_time, sent_s=self._heartbeat.sent_s)
        if first:
            self._search_soon.set()
        if not self._may_call():
            self._settler.add(self._give_back())
        return self._settings.heartbeat_s

    async def claim_turn(self) -> float:
        """Make one turn of the claim loop: go on in the lanes that are known; no pause if there is more."""
        self._claim_soon.clear()
        scan = self._scan(self._handlers.places)
        self._is_full = any(
            not free and not self._handlers.waits_for_process(where) for where, free in scan.places.items()
        )
        if not self._may_claim or (known := self._planner.known(scan)) is None:
            return self._settings.delivery_poll_s
        again = await self._claim(self._claims, known, time.monotonic())
        return 0.0 if again else self._planner.pause_s(self._settings.delivery_poll_s)

    async def search_turn(self) -> float:
        """Make one turn of the search loop: claim in all lanes from their beginning, and so learn which there are."""
        self._search_soon.clear()
        began_s = time.monotonic()
        if not self._may_claim:
            return self._settings.delivery_poll_s
        if await self._finder.look(began_s):
            self._claim_soon.set()
        if pause_s := self._planner.search_pause_s(began_s):
            return min(pause_s, self._finder.pause_s)
        try:
            again = await self._claim(self._searches, self._search_scan(), began_s)
        except StoreUnavailable:
            self._planner.fail_search(began_s=began_s, ended_s=time.monotonic())
            raise
        if again:
            self._claim_soon.set()
        return 0.0 if self._planner.is_searching else self._settings.delivery_poll_s

    async def _claim(self, session: Session, scan: DeliveryScan, began_s: float) -> bool:
        taken = await claim_deliveries(session, self.holder, scan, lease_s=self._settings.delivery_lease_s)
        self._clock.observe(taken.server_time, sent_s=began_s)
        # An answer may come late: a commit waits for a standby, or this process stood still. The leases run meanwhile.
        age_s = max(0.0, self._clock.now_s() - seconds_of(taken.server_time))
        self._take(taken.claimed, claimed_s=time.monotonic() - age_s)
        return self._planner.learn(scan, taken, began_s=began_s, ended_s=time.monotonic())

    @property
    def _may_claim(self) -> bool:
        return self._heartbeat.began and len(self._settler) < UNSETTLED_MAX

    async def hint_turn(self) -> float:
        """Make one turn of the hint loop: wait for a hint that there are new deliveries, and claim soon.

        A look for starts of jobs costs more than a claim: only a hint that tells of one leads to it.
        """
        if not await self._hints.wait(HINT_S):
            return HINT_GAP_S
        # After the wait, not before: a hint that came since the last turn may be for a delivery that no claim has seen.
        heard = self._hints.forget()
        self._claim_soon.set()
        self._search_soon.set()
        if JOBS in heard:
            self._runner.hint()
        return HINT_GAP_S

    async def renew_turn(self) -> float:
        """Make one turn of the renewal loop: renew the leases of deliveries that take long."""
        third_s = self._settings.delivery_lease_s / 3
        old = self._hand.renewed_before(time.monotonic() - third_s)
        for first in range(0, len(old), RENEWED_MAX):
            async with self._settler.alone:
                await self._renew(old[first : first + RENEWED_MAX])
        return third_s / 2

    async def _renew(self, old: Sequence[ClaimedDelivery]) -> None:
        now_s = time.monotonic()
        renewal = await renew_deliveries(self._renewals, self.holder, old, lease_s=self._settings.delivery_lease_s)
        self._hand.renew((it for it in old if it.claim in renewal.renewed), now_s=now_s)
        # What somebody has locked stays in hand, by a lease that grows old: the next turn asks for it again.
        ours = renewal.renewed | renewal.locked
        if len(ours) < len(old):
            self._drop([it for it in old if it.claim not in ours])

    async def run_turn(self) -> float:
        """Make one turn of the runs' loop: end runs of jobs that have ended, and begin those that are due."""
        return await self._runner.turn(may_begin=self._heartbeat.began)

    def _loops_of_jobs(self) -> dict[str, Coroutine[Any, Any, None]]:
        until_stopped, stopping = self._loops.until_stopped, self._loops.stopping
        if not self._runner.has_jobs:
            return {"tends": until_stopped("tends", self._runner.tend_turn, stopping)}
        return {
            "runs": until_stopped("runs", self.run_turn, self._runner.soon),
            "watches": until_stopped("watches", self._runner.watch.turn, stopping),
            "tends": until_stopped("tends", self._runner.tend_turn, stopping),
        }

    async def endpoint_turn(self) -> float:
        """Make one turn of the endpoints' loop: read those to which something waits."""
        await self._endpoints.refresh(self._lookups)
        return REFRESH_S

    def _search_scan(self) -> DeliveryScan:
        # For all that is free. The claims of a handler that is never half empty may have passed some deliveries.
        return self._planner.search(self._scan(self._handlers.free))

    def _scan(self, places: dict[str, int]) -> DeliveryScan:
        webhooks = self._endpoints.room()
        return DeliveryScan(
            targets=[target for target, free in places.items() if free],
            batch=max(1, min(self._settings.delivery_batch, sum(places.values()) + webhooks.most)),
            webhooks=webhooks.new_places,
            full_tenants=webhooks.full_tenants,
            places=places | webhooks.places,
        )

    def _may_call(self) -> bool:
        """Say whether targets may be called: not while the database is on hold."""
        return self._heartbeat.last.hold_reason is None

    def _held(self, deliveries: Sequence[ClaimedDelivery]) -> list[ClaimedDelivery]:
        """Return those of which a call may begin: their leases have not run out. The others leave the hand."""
        if not self._may_call():
            self._settler.add([Settlement(it, None) for it in deliveries])
            return []
        held = self._hand.held(deliveries, since_s=time.monotonic() - self._settings.delivery_lease_s)
        if len(held) < len(deliveries):
            # If one stayed, it would be renewed for ever, and nobody would call it.
            kept = {it.claim for it in held}
            self._hand.drop(it for it in deliveries if it.claim not in kept)
        return held

    def _take(self, claimed: Sequence[ClaimedDelivery], *, claimed_s: float) -> None:
        self._hand.take(claimed, now_s=claimed_s)
        lanes: dict[tuple[str, str], list[ClaimedDelivery]] = {}
        for it in claimed:
            lanes.setdefault((it.target, it.tenant_id), []).append(it)
        for (target, tenant_id), deliveries in lanes.items():
            if target in self._handlers:
                self._handlers.add(target, deliveries)
            else:
                self._endpoints.add(Lane(target, tenant_id), deliveries)
        self.stats.claimed += len(claimed)

    def _drop(self, lost: Sequence[ClaimedDelivery]) -> None:
        self._hand.drop(lost)
        claims = {it.claim for it in lost}
        self._handlers.drop(claims)
        self._endpoints.drop(claims)

    def _settle_soon(self, settlements: Sequence[Settlement]) -> None:
        self._settler.add(settlements)
        if self._is_full:
            self._claim_soon.set()

    def _claim_again(self, deliveries: Sequence[ClaimedDelivery]) -> None:
        """Claim soon what was given back until a process is up."""
        self._planner.go_back_to(deliveries)
        self._claim_soon.set()

    def _forget(self, settled: Sequence[Settlement], lost: frozenset[Claim]) -> None:
        """Take out of the hand what was settled, or is another worker's now."""
        self._hand.drop(it.delivery for it in settled)
        self.stats.count_settled(settled, lost)

    def _report(self, *, leaving: bool = False) -> None:
        present = WorkerGauges(in_hand=len(self), breakers_open=self._endpoints.breakers_open)
        self._reporter.send(report_of(self._registration.name, self.stats, present, leaving=leaving))

    def _look_soon(self) -> None:
        self._claim_soon.set()
        self._search_soon.set()
        self._runner.look_soon()

    def _stop(self) -> None:
        self._handlers.stop()
        self._endpoints.stop()
        self._loops.stopping.set()
        self._look_soon()
        self._settler.wake()
        self._endpoints.asked.set()

    def _break_off(self, error: BaseException) -> None:
        """End the worker, so that another one has what is in hand: nobody can say what became of it here."""
        self._loops.end_with(error)
        self._stop()

    async def _let_calls_end(self) -> None:
        if calls := self._handlers.stop() | self._endpoints.stop() | self._runner.stop():
            await asyncio.wait(calls, timeout=CALLS_END_S)

    def _give_back(self) -> list[Settlement]:
        """Give up what waits for its call: attempts that did not take place."""
        return [*self._handlers.give_back(), *self._endpoints.give_back()]

    async def _hand_back(self) -> None:
        """Settle what has ended, then end this holder: that frees all it has in hand at once."""
        await self._endpoints.close()
        await self._runner.break_off()
        self._settler.add(self._give_back())

        async def write_rest() -> None:
            await self._settler.settle_rest()
            await self._runner.write_rest()

        await self._registration.hand_back(self._claims, held=self.__len__, first=write_rest)
        self._report(leaving=True)
        self._reporter.close()
        self._log.info("drained", in_hand=len(self), **self.stats.counts())
