"""The deliveries of one worker: claimed, called by handlers or sent to endpoints, and settled."""

import asyncio
import time
from collections.abc import Callable, Sequence

from shardclock_server.keepers.clock import seconds_of
from shardclock_server.keepers.keeper import Loop, Part
from shardclock_server.keepers.registration import Registration
from shardclock_server.sql.deliveries.claim import (
    ClaimedDelivery,
    DeliveryScan,
    Lane,
    claim_deliveries,
    renew_deliveries,
)
from shardclock_server.sql.deliveries.hints import DELIVERIES, JOBS
from shardclock_server.sql.deliveries.settle import SETTLE_PLANS, Settlement
from shardclock_server.sql.hints import HINT_S
from shardclock_server.sql.session import Session, StoreUnavailable
from shardclock_server.webhooks.endpoint import EndpointRules
from shardclock_server.workers.claim_planner import ClaimPlanner
from shardclock_server.workers.context import WorkerContext
from shardclock_server.workers.endpoints import Endpoints
from shardclock_server.workers.handler import HandlerSpec
from shardclock_server.workers.handlers import Handlers
from shardclock_server.workers.lane_finder import LaneFinder
from shardclock_server.workers.lease_table import LeaseTable
from shardclock_server.workers.permits import CallPermits
from shardclock_server.workers.process import HandlerProcess
from shardclock_server.workers.runs.runner import JobRunner
from shardclock_server.workers.settings import WorkerSettings
from shardclock_server.workers.settler import Settler
from shardclock_server.workers.stats import WorkerStats
from shardclock_server.workers.surroundings import Surroundings

HINT_GAP_S = 0.004  # between two claims that hints ask for
SEARCH_TIMEOUT_S = 30.0  # a search may read past millions of settled deliveries that can't be removed
UNSETTLED_MAX = 5_000  # outcomes that wait to be settled: with more, nothing is claimed
RENEWED_MAX = 1_000  # leases that one statement renews, so that a statement which takes too long is not the whole hand


class Deliveries(Part):
    """Claim the deliveries that are due, have their targets called, and settle how each attempt has ended.

    `endpoints` is a part of the worker as well: it is stopped, and broken off, after this one.
    """

    def __init__(
        self,
        registration: Registration,
        settings: WorkerSettings,
        specs: Sequence[HandlerSpec],
        *,
        stats: WorkerStats,
        runs: JobRunner,
        start: Callable[[HandlerSpec], HandlerProcess],
        surroundings: Surroundings,
    ) -> None:
        session = registration.session
        self._holder, self._heartbeat = registration.holder, registration.heartbeat
        self._settings, self._stats, self._runs = settings, stats, runs
        self.claims, self._renewals = session("claims"), session("renewals")
        self._searches = session("searches", timeout_s=SEARCH_TIMEOUT_S)
        self._hints = registration.listener(DELIVERIES)
        self._clock, self._planner = surroundings.clock, ClaimPlanner()
        self._leases = LeaseTable[ClaimedDelivery]()
        self._settler = Settler(
            session("settles", SETTLE_PLANS),
            self._holder,
            self._leases,
            batch=settings.delivery_batch,
            stats=stats,
            planner=self._planner,
            log=registration.log,
        )
        self._permits = CallPermits(
            registration.heartbeat, self._leases, self._settler, lease_s=settings.delivery_lease_s
        )
        context = WorkerContext(
            outcomes=self._settler,
            permits=self._permits,
            claims=self._planner,
            clock=self._clock,
            stats=stats,
            broken=registration.loops.end_with,
            jitter=surroundings.jitter,
        )
        self.handlers = Handlers(specs, context, start=start)
        rules = EndpointRules(settings.webhook_http, settings.networks)
        self.endpoints = Endpoints(context, session("endpoints"), rules, send=surroundings.send)
        self._search_soon = asyncio.Event()
        self._finder = LaneFinder(self._planner, self._searches)

    def __len__(self) -> int:
        """Count the deliveries in hand."""
        return len(self._leases)

    def loops(self) -> Sequence[Loop]:
        """List the loops of deliveries."""
        return [
            Loop("claims", self.claim_turn, self._planner.soon),
            Loop("searches", self.search_turn, self._search_soon),
            Loop("hints", self.hint_turn),
            Loop("settles", self._settler.turn, self._settler.many),
            Loop("renewals", self.renew_turn),
        ]

    def open(self) -> None:
        """Begin to call claimed deliveries."""
        self.handlers.begin()

    def learn_beat(self, *, first: bool) -> None:
        """Learn Postgres's time, and search when the holder is registered; on hold, release all waiting deliveries."""
        self._clock.observe(self._heartbeat.last.server_time, sent_s=self._heartbeat.sent_s)
        if first:
            self._search_soon.set()
        if not self._permits.may_call:
            self._settler.add(self._give_back())

    def stop(self) -> None:
        """Begin no more calls, and end the waits of the loops."""
        self.handlers.stop()
        self._planner.soon.set()
        self._search_soon.set()
        self._settler.wake()

    def end_calls(self) -> set[asyncio.Task[None]]:
        """Return the calls that are under way."""
        return self.handlers.stop()

    async def break_off(self) -> None:
        """Break off all calls, and end the processes."""
        await self.handlers.close()

    async def hand_back(self) -> None:
        """Settle the outcomes, and release all waiting deliveries.

        errors:  StoreUnavailable  the outcome is unknown
        """
        self._settler.add(self._give_back())
        await self._settler.settle_rest()

    async def finish(self, check: Callable[[], None]) -> None:
        """Settle until nothing is in hand, for a worker that is stepped; `check` raises a fault of ours.

        errors:  StoreUnavailable  the rest is called again when its lease has run out
        """
        while len(self._leases):
            await self._settler.turn()
            check()

    async def claim_all(self) -> bool:
        """Claim in all lanes once, for a worker that is stepped; say whether there may be more.

        errors:  StoreUnavailable  the outcome is unknown
        """
        return await self._claim(self._searches, self._search_scan(), time.monotonic())

    async def claim_turn(self) -> float:
        """Make one turn of the claim loop: go on in the lanes that are known; no pause if there is more."""
        self._planner.soon.clear()
        scan = self._scan(self.handlers.places)
        self._planner.is_full = any(
            not free and not self.handlers.waits_for_process(where) for where, free in scan.places.items()
        )
        if not self._may_claim or (known := self._planner.known(scan)) is None:
            return self._settings.delivery_poll_s
        again = await self._claim(self.claims, known, time.monotonic())
        return 0.0 if again else self._planner.pause_s(self._settings.delivery_poll_s)

    async def search_turn(self) -> float:
        """Make one turn of the search loop: claim in all lanes from their beginning, and so learn which there are."""
        self._search_soon.clear()
        began_s = time.monotonic()
        if not self._may_claim:
            return self._settings.delivery_poll_s
        if await self._finder.look(began_s):
            self._planner.soon.set()
        if pause_s := self._planner.search_pause_s(began_s):
            return min(pause_s, self._finder.pause_s)
        try:
            again = await self._claim(self._searches, self._search_scan(), began_s)
        except StoreUnavailable:
            self._planner.fail_search(began_s=began_s, ended_s=time.monotonic())
            raise
        if again:
            self._planner.soon.set()
        return 0.0 if self._planner.is_searching else self._settings.delivery_poll_s

    async def _claim(self, session: Session, scan: DeliveryScan, began_s: float) -> bool:
        taken = await claim_deliveries(session, self._holder, scan, lease_s=self._settings.delivery_lease_s)
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
        self._planner.soon.set()
        self._search_soon.set()
        if JOBS in heard:
            self._runs.hint()
        return HINT_GAP_S

    async def renew_turn(self) -> float:
        """Make one turn of the renewal loop: renew the leases of deliveries that take long."""
        third_s = self._settings.delivery_lease_s / 3
        old = self._leases.renewed_before(time.monotonic() - third_s)
        for first in range(0, len(old), RENEWED_MAX):
            async with self._settler.alone:
                await self._renew(old[first : first + RENEWED_MAX])
        return third_s / 2

    async def _renew(self, old: Sequence[ClaimedDelivery]) -> None:
        now_s = time.monotonic()
        renewal = await renew_deliveries(self._renewals, self._holder, old, lease_s=self._settings.delivery_lease_s)
        self._leases.renew((it for it in old if it.claim in renewal.renewed), now_s=now_s)
        # A locked delivery stays in hand by a lease that grows old: the next turn asks for it again.
        ours = renewal.renewed | renewal.locked
        if len(ours) < len(old):
            self._drop([it for it in old if it.claim not in ours])

    def _search_scan(self) -> DeliveryScan:
        # For all that is free. The claims of a handler that is never half empty may have passed some deliveries.
        return self._planner.search(self._scan(self.handlers.free))

    def _scan(self, places: dict[str, int]) -> DeliveryScan:
        webhooks = self.endpoints.room()
        return DeliveryScan(
            targets=[target for target, free in places.items() if free],
            batch=max(1, min(self._settings.delivery_batch, sum(places.values()) + webhooks.most)),
            webhooks=webhooks.new_places,
            full_tenants=webhooks.full_tenants,
            places=places | webhooks.places,
        )

    def _take(self, claimed: Sequence[ClaimedDelivery], *, claimed_s: float) -> None:
        self._leases.take(claimed, now_s=claimed_s)
        lanes: dict[tuple[str, str], list[ClaimedDelivery]] = {}
        for it in claimed:
            lanes.setdefault((it.target, it.tenant_id), []).append(it)
        for (target, tenant_id), deliveries in lanes.items():
            if target in self.handlers:
                self.handlers.add(target, deliveries)
            else:
                self.endpoints.add(Lane(target, tenant_id), deliveries)
        self._stats.claimed += len(claimed)

    def _drop(self, lost: Sequence[ClaimedDelivery]) -> None:
        self._leases.drop(lost)
        claims = {it.claim for it in lost}
        self.handlers.drop(claims)
        self.endpoints.drop(claims)

    def _give_back(self) -> list[Settlement]:
        """Release all waiting deliveries without counting an attempt."""
        return [*self.handlers.give_back(), *self.endpoints.give_back()]
