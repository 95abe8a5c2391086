"""The coordinator's reconcile loop, and one iteration (`turn`) of the loop."""

import asyncio
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import structlog

from shardclock_server.coordinator.crew import Crew
from shardclock_server.coordinator.fleet import Fleet, FleetUnavailable
from shardclock_server.coordinator.holders_seen import HoldersSeen
from shardclock_server.coordinator.operator_events import OperatorEvents
from shardclock_server.coordinator.retention import Retention
from shardclock_server.coordinator.scaling import Scaling
from shardclock_server.coordinator.settings import CoordinatorSettings
from shardclock_server.coordinator.stand_by import StandBy
from shardclock_server.coordinator.stats import report
from shardclock_server.coordinator.succession import until_succeeded
from shardclock_server.keepers.loops import pause
from shardclock_server.metrics.report import Reporter
from shardclock_server.sql.cluster.holders import LOCAL_NODE, SHARD, Holder, end_holders, list_holders
from shardclock_server.sql.cluster.leadership import Leadership, lead, resign
from shardclock_server.sql.dsn import Dsn
from shardclock_server.sql.session import Session, StatementRefused, StoreUnavailable

STARTING_TURN_S = 0.03  # The time between two iterations while a keeper is about to register.
SUSPECT_SLACK_S = 0.002  # The iteration runs this much later than the timeout, so that the keeper is suspect by then.
STANDING_BY_S = 1.0  # The time between two iterations without keepers; `up` wakes this cluster when it must lead.
INCARNATION_BITS = 63  # A number of this size fits into Postgres's bigint.
ASK_AGAIN_S = 5.0  # The pause after the fleet did not answer a call.


class Superseded(Exception):
    """A newer incarnation of this coordinator leads, so this incarnation must stop."""


class Reconciler:
    """Bring the keepers of each role to the desired state; assign slots only while this cluster leads.

    `incarnation` is a random number, unless a test sets it. `fleets` has a fleet for each role; `node_id` is the
    coordinator's node. `beside` is another cluster, which leads whenever it can; with `beside`, this cluster has
    keepers only while it leads. `tell` is called with a message for the user when another cluster starts to lead.
    """

    def __init__(
        self,
        settings: CoordinatorSettings,
        *,
        dsn: Dsn | str,
        cluster_id: str,
        incarnation: int | None = None,
        fleets: Sequence[Fleet],
        node_id: str = LOCAL_NODE,
        beside: str | None = None,
        tell: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._settings = settings
        self._cluster_id = cluster_id
        self._incarnation = secrets.randbits(INCARNATION_BITS) if incarnation is None else incarnation
        self._node_id = node_id
        # The name of this database session lets `shardclock status` find a stand-by cluster without keepers.
        application = f"shardclock stand-by {cluster_id}" if beside else "shardclock coordinator"
        self._session = Session(dsn, application=application, timeout_s=settings.coordinator_timeout_s)
        self._stand_by = (
            StandBy(self._session, cluster_id, beside=beside, silent_s=settings.suspect_s) if beside else None
        )
        self._log = structlog.get_logger().bind(coordinator=f"{self._incarnation:016x}")
        self._changed = asyncio.Event()
        self._crews = [
            Crew(
                fleet,
                settings,
                self._session,
                cluster_id=cluster_id,
                changed=self.wake,
                log=self._log,
                stand_by=self._stand_by,
            )
            for fleet in fleets
        ]
        self._tell, self._kind = tell, fleets[0].kind
        self.leads: bool | None = None
        self.settled = asyncio.Event()
        self._fresh = True
        self._ask_again_s = 0.0
        self._retention = Retention(self._session, keep_days=settings.retention_days)
        self._events = OperatorEvents(self._session, settings)
        # The forecast is a number of timers, so it determines only the number of shards. An operator scales the other
        # roles.
        shards = next(fleet for fleet in fleets if fleet.role == SHARD)
        self._scaling = Scaling(SHARD, settings, self._session, shards.ask_for_nodes)
        self._reporter = Reporter(settings.metrics_socket)
        self._stopping = self._is_orphan = False

    async def run(self) -> None:
        """Run iterations until stopped or superseded; a superseded coordinator makes no further changes."""
        try:
            await self._until_stopped()
            await self._wind_down()
        except Superseded:
            self._log.warning("superseded")
        await self._close()

    async def _until_stopped(self) -> None:
        """Run iterations; log a failed iteration, and continue with the next iteration."""
        failing = False
        while not self._stopping:
            self._changed.clear()
            try:
                await self.turn()
                failing = failing and self._is_fleet_away
                if not self._is_starting:
                    self.settled.set()
            except (StoreUnavailable, StatementRefused, FleetUnavailable) as error:
                if not isinstance(error, FleetUnavailable):
                    # If Postgres does not answer, no keeper counts as silent.
                    self._forget_silence()
                if not failing:
                    self._log.warning("turn failed", error=str(error))
                failing = True
            if self._reporter.is_due:
                self._report()
            await pause(self._pause_s, self._changed)

    async def turn(self) -> None:
        """Run one iteration: read, decide, act."""
        if self._stand_by is not None:
            await self._stand_by.take_lead()
        leadership = await self._lead()
        seen = await HoldersSeen.read(self._session)
        if self._stand_by is not None:
            leadership = await self._share_lead(self._stand_by, seen, leadership)
        wanted = dict(leadership.wanted)
        if leadership.leads:
            wanted[SHARD] = await self._scaling.turn(leadership, self._incarnation)
        else:
            await self._scaling.stand_by()
        await self._turn_crews(leadership, wanted, seen)
        # While the first local shards start, the next iteration must assign their slots without delay.
        if leadership.leads and not any(crew.needs_processors for crew in self._crews):
            await self._retention.turn()
            await self._events.turn()

    async def _share_lead(self, ours: StandBy, seen: HoldersSeen, leadership: Leadership) -> Leadership:
        """Take the lead from the cluster `beside`, or hand the lead to `beside`; tell the user which keepers fire.

        errors:  StoreUnavailable  no answer before the timeout
        """
        if await ours.take_unserved(seen, leadership):
            leadership = await self._lead()
        elif await ours.give_lead(seen, leadership):
            self._log.info("gave the lead away")
            leadership = replace(leadership, leads=False)
        for sentence in ours.news(seen.read_s, leadership):
            self._tell(sentence)
        return leadership

    def _forget_silence(self) -> None:
        for crew in self._crews:
            crew.forget_silence()
        if self._stand_by is not None:
            self._stand_by.forget_silence()

    @property
    def _pause_s(self) -> float:
        """Return the pause before the next iteration.

        The pause is short while keepers start, because they need slots soon.
        """
        if self._is_starting:
            return min(STARTING_TURN_S, self._settings.reconcile_s)
        is_idle = (
            self._stand_by is not None and self.leads is False and not any(crew.has_keepers for crew in self._crews)
        )
        if is_idle:
            return STANDING_BY_S
        # Run an iteration at the moment when a keeper becomes suspect, so that it is suspended without delay.
        return min(self._settings.reconcile_s, SUSPECT_SLACK_S + min(crew.suspects_in_s for crew in self._crews))

    @property
    def _is_starting(self) -> bool:
        return any(crew.is_starting for crew in self._crews)

    @property
    def is_stuck(self) -> bool:
        """Return whether no shard runs, and starts of shards have failed for too long."""
        return any(crew.is_stuck for crew in self._crews if crew.role == SHARD)

    @property
    def _is_fleet_away(self) -> bool:
        """Return whether the fleet must not be called yet, because it did not answer the last call."""
        return time.monotonic() < self._ask_again_s

    async def _turn_crews(self, leadership: Leadership, wanted: Mapping[str, int], seen: HoldersSeen) -> None:
        """Run an iteration of each crew; if the fleet does not answer, run only the steps that need no fleet.

        While the first local shards start, the other crews start no processes, so that the shards get the CPUs.

        errors:  FleetUnavailable  the fleet did not answer
        """
        left = list(self._crews)
        unanswered: FleetUnavailable | None = None
        try:
            while left and not self._is_fleet_away:
                await left[0].turn(leadership, wanted[left[0].role], seen)
                if left.pop(0).needs_processors:
                    break
        except FleetUnavailable as error:
            self._ask_again_s = time.monotonic() + ASK_AGAIN_S
            unanswered = error
        for crew in left:
            await crew.turn_without_fleet(leadership, wanted[crew.role], seen)
        if unanswered is not None:
            raise unanswered

    def stop(self, *, is_orphan: bool = False) -> None:
        """Stop the loop; `run` then gives up the lead and drains all keepers.

        An orphan is a cluster after a kill of its `up`. The keepers of an orphan fire timers until the keepers of the
        next `up` have taken over the slots.
        """
        self._is_orphan = is_orphan and (self._is_orphan or not self._stopping)
        self._stopping = True
        self.wake()

    def lead_instead(self) -> None:
        """Take the lead in an immediate iteration, because the host process of the other cluster has ended."""
        assert self._stand_by is not None, "this cluster stands by for another cluster"
        self._stand_by.lose()
        self.wake()

    def lead_until_ready(self, node_id: str) -> None:
        """Record that the other cluster's host is ready on `node_id`.

        This cluster leads until the keepers of the other cluster are ready.
        """
        assert self._stand_by is not None, "this cluster stands by for another cluster"
        self._stand_by.regain(node_id)
        self.wake()

    def wake(self) -> None:
        """Start the next iteration now."""
        self._changed.set()

    async def _lead(self) -> Leadership:
        """Acquire or renew the leader's lease if possible; return the leader.

        errors:  Superseded  a newer incarnation of this coordinator has the lead
        """
        leadership = await lead(
            self._session,
            self._incarnation,
            cluster_id=self._cluster_id,
            lease_s=self._settings.leader_lease_s,
            fresh=self._fresh,
            node_id=self._node_id,
            identity=self._settings.identity,
            patience_s=self._stand_by.patience_s if self._stand_by is not None else 0.0,
        )
        self._fresh = False
        self._learn_lead(leadership)
        return leadership

    def _learn_lead(self, leadership: Leadership) -> None:
        """Record whether this cluster leads.

        errors:  Superseded  a newer incarnation of this coordinator has the lead
        """
        is_given = leadership.leader is not None or leadership.node_id not in (None, self._node_id)
        if is_given and not leadership.leads and leadership.cluster_id == self._cluster_id:
            raise Superseded
        if leadership.leads != self.leads:
            self._log.info("leads" if leadership.leads else "stands by", term=leadership.term)
        self.leads = leadership.leads

    async def _wind_down(self) -> None:
        try:
            for crew in self._crews:
                await crew.adopt()
            # Read the holders before the check of the lead, so that the list can't contain holders of the next leader.
            there = {holder.holder for holder in await self._own_holders()}
            await self._lead()
            await resign(self._session, self._incarnation)
            await self._scaling.stand_by()
            await until_succeeded(self._session, self._settings, cluster_id=self._cluster_id, is_orphan=self._is_orphan)
            retired = {
                name for names in await asyncio.gather(*(crew.retire() for crew in self._crews)) for name in names
            }
            left = [h for h in await self._own_holders() if h.holder in there or h.actor_name in retired]
            await end_holders(self._session, [h.holder for h in left], why="stopped")
        except (StoreUnavailable, StatementRefused, FleetUnavailable) as error:
            self._log.warning("stopped without handing back; leases end by themselves", error=str(error))

    async def _own_holders(self) -> list[Holder]:
        return [h for h in await list_holders(self._session) if h.cluster_id == self._cluster_id]

    async def _close(self) -> None:
        self._report(leaving=True)
        self._reporter.close()
        for crew in self._crews:
            await crew.abandon()
        await self._scaling.close()
        await self._events.close()
        await self._session.close()

    def _report(self, *, leaving: bool = False) -> None:
        self._reporter.send(
            report(
                f"coordinator {self._incarnation:016x}",
                fleet=self._kind,
                leads=bool(self.leads),
                crews=[crew.stats for crew in self._crews],
                ray_away_s=self._stand_by.led_s() if self._stand_by is not None else None,
                leaving=leaving,
            )
        )
