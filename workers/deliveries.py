"""Claim the deliveries of one worker, pass them to handlers and endpoints, and settle their outcomes."""

import asyncio
import time
from collections.abc import Callable, Sequence

from shardclock_server.keepers.clock import seconds_of
from shardclock_server.keepers.hand_over_socket import HandedOver
from shardclock_server.keepers.keeper import KeeperLoop, KeeperPart
from shardclock_server.keepers.registration import Registration
from shardclock_server.sql.deliveries.claim import (
    ClaimedDelivery,
    DeliveryScan,
    Lane,
    claim_deliveries,
    renew_deliveries,
)
from shardclock_server.sql.deliveries.notifications import DELIVERIES, JOBS
from shardclock_server.sql.deliveries.settle import SETTLE_PLANS, Settlement
from shardclock_server.sql.notification_listener import NOTIFICATION_WAIT_S
from shardclock_server.sql.session import Session, StoreUnavailable
from shardclock_server.webhooks.endpoint import EndpointRules
from shardclock_server.workers.context import WorkerContext
from shardclock_server.workers.delivery_planner import DeliveryPlanner
from shardclock_server.workers.dependencies import Dependencies
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

NOTIFICATION_GAP_S = 0.004  # The time between two claims that notifications start.
SEARCH_TIMEOUT_S = 30.0  # A search may read millions of settled deliveries that vacuum can't remove yet.
UNSETTLED_MAX = 5_000  # While more outcomes wait for settlement, the worker claims no deliveries.
# The largest number of leases that one statement renews, so that one timeout can't lose all leases.
RENEWED_MAX = 1_000


class Deliveries(KeeperPart):
    """Claim due deliveries, pass them to the queues of their targets, and settle the outcomes.

    `endpoints` is a separate component of the worker, and stops after this component.
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
        dependencies: Dependencies,
    ) -> None:
        session = registration.session
        self._holder, self._heartbeat = registration.holder, registration.heartbeat
        self._settings, self._stats, self._runs = settings, stats, runs
        self.claims, self._renewals = session("claims"), session("renewals")
        self._searches = session("searches", timeout_s=SEARCH_TIMEOUT_S)
        self._notifications = registration.listener(DELIVERIES)
        self._clock, self._planner = dependencies.clock, DeliveryPlanner()
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
            on_fault=registration.loops.end_with,
            jitter=dependencies.jitter,
        )
        self.handlers = Handlers(specs, context, start=start)
        rules = EndpointRules(settings.webhook_http, settings.networks)
        self.endpoints = Endpoints(context, session("endpoints"), rules, send=dependencies.send)
        self._search_soon = asyncio.Event()
        self._finder = LaneFinder(self._planner, self._searches)

    def __len__(self) -> int:
        """Count the leased deliveries."""
        return len(self._leases)

    def loops(self) -> Sequence[KeeperLoop]:
        """List the loops that claim, renew and settle deliveries."""
        return [
            KeeperLoop("claims", self.claim_turn, self._planner.soon),
            KeeperLoop("searches", self.search_turn, self._search_soon),
            KeeperLoop("notifications", self.notification_turn),
            KeeperLoop("settles", self._settler.turn, self._settler.enough),
            KeeperLoop("renewals", self.renew_turn),
        ]

    def open(self) -> None:
        """Start calling claimed deliveries."""
        self.handlers.begin()

    def learn_beat(self, *, first: bool) -> None:
        """Update the clock, and start a search at the first heartbeat.

        While the database is on hold, release all waiting deliveries.
        """
        self._clock.observe(self._heartbeat.last.server_time, sent_s=self._heartbeat.sent_s)
        if first:
            self._search_soon.set()
        if not self._permits.may_call:
            self._settler.add(self._give_back())

    def stop(self) -> None:
        """Start no more calls, and wake the loops."""
        self.handlers.stop()
        self._planner.soon.set()
        self._search_soon.set()
        self._settler.wake()

    def end_calls(self) -> set[asyncio.Task[None]]:
        """Return the tasks of the running calls."""
        return self.handlers.stop()

    async def break_off(self) -> None:
        """Cancel all calls, and kill the processes of the handlers."""
        await self.handlers.close()

    async def hand_back(self) -> None:
        """Settle the outcomes, and release all waiting deliveries.

        errors:  StoreUnavailable  the outcome is unknown
        """
        self._settler.add(self._give_back())
        await self._settler.settle_remaining()

    async def finish(self, check: Callable[[], None]) -> None:
        """Settle outcomes until no delivery is leased, for a worker in a user's test.

        `check` raises the error of a worker that failed.

        errors:  StoreUnavailable  the remaining deliveries are called again after their leases have expired
        """
        while len(self._leases):
            await self._settler.turn()
            check()

    async def claim_all(self) -> bool:
        """Claim once in all lanes, for a stepped worker; return whether more deliveries may be due.

        errors:  StoreUnavailable  the outcome is unknown
        """
        return await self._claim(self._searches, self._search_scan(), time.monotonic())

    async def claim_turn(self) -> float:
        """Run the claim loop once: claim in the known lanes. The loop does not pause while due deliveries are left."""
        self._planner.soon.clear()
        scan = self._scan(self.handlers.places)
        self._planner.is_full = any(
            not free and not self.handlers.waits_for_process(where) for where, free in scan.places.items()
        )
        if not self.may_claim or (known := self._planner.scan_of_known_lanes(scan)) is None:
            return self._planner.poll_s(self._settings.delivery_poll_s)
        again = await self._claim(self.claims, known, time.monotonic())
        return 0.0 if again else self._planner.pause_s(self._settings.delivery_poll_s)

    async def search_turn(self) -> float:
        """Run the search loop once: claim from the start of each lane, which also finds new lanes."""
        self._search_soon.clear()
        began_s = time.monotonic()
        if not self.may_claim:
            return self._settings.delivery_poll_s
        if await self._finder.read(began_s):
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
        return 0.0 if self._planner.is_searching else self._planner.poll_s(self._settings.delivery_poll_s)

    async def _claim(self, session: Session, scan: DeliveryScan, began_s: float) -> bool:
        taken = await claim_deliveries(session, self._holder, scan, lease_s=self._settings.delivery_lease_s)
        self._clock.observe(taken.server_time, sent_s=began_s)
        # The answer is late if the commit waited for a standby, or if this process was suspended. The leases run during
        # this delay, so their age is subtracted.
        age_s = max(0.0, self._clock.now_s() - seconds_of(taken.server_time))
        self._take(taken.claimed, claimed_s=time.monotonic() - age_s)
        return self._planner.record(scan, taken, began_s=began_s, ended_s=time.monotonic())

    @property
    def may_claim(self) -> bool:
        """Return whether the worker may claim: it is registered, and settles its outcomes in time."""
        return self._heartbeat.began and len(self._settler) < UNSETTLED_MAX

    def is_behind(self, target: str) -> bool:
        """Return whether a target may have waiting deliveries, which are called before deliveries of new firings."""
        return self._planner.is_behind(target)

    def take_over(self, handed: HandedOver, deliveries: Sequence[ClaimedDelivery]) -> None:
        """Accept deliveries that a shard has claimed for this worker; these leases are shorter than after a claim."""
        left_s = handed.lease_s - max(0.0, self._clock.now_s() - seconds_of(handed.server_time))
        self._take(deliveries, claimed_s=time.monotonic() + left_s - self._settings.delivery_lease_s)
        self._stats.handed_over += len(deliveries)

    async def notification_turn(self) -> float:
        """Run the notification loop once: wait for a notification of new deliveries, and claim soon.

        Only a notification about a job's start triggers a poll for starts of jobs, because this poll costs more than a
        claim.
        """
        if not await self._notifications.wait(NOTIFICATION_WAIT_S):
            return NOTIFICATION_GAP_S
        # Clear the notifications after the wait, not before: an earlier notification may announce an unread delivery.
        notified = self._notifications.forget()
        self._planner.soon.set()
        self._search_soon.set()
        if JOBS in notified:
            self._runs.notify()
        return NOTIFICATION_GAP_S

    async def renew_turn(self) -> float:
        """Run the renewal loop once: renew the leases of long calls."""
        third_s = self._settings.delivery_lease_s / 3
        old = self._leases.renewed_before(time.monotonic() - third_s)
        for first in range(0, len(old), RENEWED_MAX):
            async with self._settler.lock:
                await self._renew(old[first : first + RENEWED_MAX])
        return third_s / 2

    async def _renew(self, old: Sequence[ClaimedDelivery]) -> None:
        now_s = time.monotonic()
        renewal = await renew_deliveries(self._renewals, self._holder, old, lease_s=self._settings.delivery_lease_s)
        self._leases.renew((it for it in old if it.claim in renewal.renewed), now_s=now_s)
        # A locked delivery keeps its old lease; the next turn tries to renew it again.
        ours = renewal.renewed | renewal.locked
        if len(ours) < len(old):
            self._drop([it for it in old if it.claim not in ours])

    def _search_scan(self) -> DeliveryScan:
        # A search claims up to the full capacity, because ordinary claims skip a handler while its queue is more than
        # half full.
        return self._planner.search(self._scan(self.handlers.free))

    def _scan(self, places: dict[str, int]) -> DeliveryScan:
        capacity = self.endpoints.capacity()
        return DeliveryScan(
            targets=[target for target, free in places.items() if free],
            batch=max(1, min(self._settings.delivery_batch, sum(places.values()) + capacity.most)),
            webhooks=capacity.new_places,
            full_tenants=capacity.full_tenants,
            places=places | capacity.places,
        )

    def _take(self, claimed: Sequence[ClaimedDelivery], *, claimed_s: float) -> None:
        if claimed and self._planner.is_idle:
            # Poll again, because no notification announces the next attempts of the claimed deliveries.
            self._planner.is_idle = False
            self._planner.soon.set()
            self._search_soon.set()
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
