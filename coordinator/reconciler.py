"""The coordinator's reconcile loop, and one turn of it."""

import asyncio
import secrets
import time
from collections.abc import Mapping, Sequence

import structlog

from shardclock_server.coordinator.crew import Crew
from shardclock_server.coordinator.fleet import Fleet, FleetUnavailable
from shardclock_server.coordinator.retention import Retention
from shardclock_server.coordinator.scaling import Scaling
from shardclock_server.coordinator.settings import CoordinatorSettings
from shardclock_server.coordinator.stats import report
from shardclock_server.keepers.loops import pause
from shardclock_server.metrics.report import Reporter
from shardclock_server.sql.cluster.holders import SHARD, Holder, end_holders, list_holders
from shardclock_server.sql.cluster.leadership import Leadership, lead, resign
from shardclock_server.sql.dsn import Dsn
from shardclock_server.sql.session import Session, StatementRefused, StoreUnavailable

STARTING_TURN_S = 0.03  # between two turns while a keeper is about to register
ASK_AGAIN_S = 5.0  # after a question that the fleet did not answer
INCARNATION_BITS = 63  # a bigint in Postgres: positive
HANDED_OVER_S = 0.1  # between two checks whether another cluster has taken the slots


class Superseded(Exception):
    """A newer incarnation of this coordinator leads; this one must do nothing more."""


def new_incarnation() -> int:
    """Draw the number of a coordinator, anew at each start."""
    return secrets.randbits(INCARNATION_BITS)


class Reconciler:
    """Bring the keepers of each role to the desired state; leave the slots alone while another cluster leads.

    `fleets` has one for each role.
    """

    def __init__(
        self,
        settings: CoordinatorSettings,
        *,
        dsn: Dsn | str,
        cluster_id: str,
        incarnation: int,
        fleets: Sequence[Fleet],
    ) -> None:
        self._settings = settings
        self._cluster_id = cluster_id
        self._incarnation = incarnation
        self._session = Session(dsn, application="shardclock coordinator", timeout_s=settings.coordinator_timeout_s)
        self._log = structlog.get_logger().bind(coordinator=f"{incarnation:016x}")
        self._changed = asyncio.Event()
        self._crews = [
            Crew(fleet, settings, self._session, cluster_id=cluster_id, changed=self.wake, log=self._log)
            for fleet in fleets
        ]
        self._kind = fleets[0].kind
        self._leads: bool | None = None
        self._fresh = True
        self._ask_again_s = 0.0
        self._retention = Retention(self._session, keep_days=settings.retention_days)
        # The forecast counts timers, so only the number of shards follows it. An operator scales the other roles.
        shards = next(fleet for fleet in fleets if fleet.role == SHARD)
        self._scaling = Scaling(SHARD, settings, self._session, shards.ask_for_nodes)
        self._reporter = Reporter(settings.metrics_socket)
        self._stopping = False

    async def run(self) -> None:
        """Take turns until stopped or superseded; a superseded coordinator touches nothing more."""
        try:
            await self._until_stopped()
            await self._wind_down()
        except Superseded:
            self._log.warning("superseded")
        await self._close()

    async def _until_stopped(self) -> None:
        """Take turns; log a turn that fails, and go on with the next."""
        failing = False
        while not self._stopping:
            self._changed.clear()
            try:
                await self.turn()
                failing = failing and self._is_fleet_away
            except (StoreUnavailable, StatementRefused, FleetUnavailable) as error:
                if not isinstance(error, FleetUnavailable):
                    # Without news from Postgres no keeper can be called silent.
                    for crew in self._crews:
                        crew.forget_silence()
                if not failing:
                    self._log.warning("turn failed", error=str(error))
                failing = True
            self._report()
            await pause(self._pause_s, self._changed)

    async def turn(self) -> None:
        """Make one turn: read, decide, act."""
        leadership = await self._lead()
        wanted = dict(leadership.wanted)
        if leadership.leads:
            wanted[SHARD] = await self._scaling.turn(leadership, self._incarnation)
        else:
            await self._scaling.stand_by()
        await self._turn_crews(leadership, wanted)
        if leadership.leads:
            await self._retention.turn()

    @property
    def _pause_s(self) -> float:
        """Return the pause before the next turn: short while keepers start, because they have no slots until then."""
        is_starting = any(crew.is_starting for crew in self._crews)
        return min(STARTING_TURN_S, self._settings.reconcile_s) if is_starting else self._settings.reconcile_s

    @property
    def is_stuck(self) -> bool:
        """Say whether no shard is left and none comes up, although the fleet takes the requests for them."""
        return any(crew.is_stuck for crew in self._crews if crew.role == SHARD)

    @property
    def _is_fleet_away(self) -> bool:
        """Say whether the fleet did not answer, and is not to be asked again yet."""
        return time.monotonic() < self._ask_again_s

    async def _turn_crews(self, leadership: Leadership, wanted: Mapping[str, int]) -> None:
        """Let each crew act; while the fleet does not answer, as far as Postgres alone is enough.

        errors:  FleetUnavailable  it was asked, and has not answered
        """
        left = list(self._crews)
        unanswered: FleetUnavailable | None = None
        try:
            while left and not self._is_fleet_away:
                await left[0].turn(leadership, wanted[left[0].role])
                del left[0]
        except FleetUnavailable as error:
            self._ask_again_s = time.monotonic() + ASK_AGAIN_S
            unanswered = error
        for crew in left:
            await crew.turn_without_fleet(leadership, wanted[crew.role])
        if unanswered is not None:
            raise unanswered

    def stop(self) -> None:
        """Ask the loop to end; `run` then drains every keeper and gives up the lead."""
        self._stopping = True
        self.wake()

    def wake(self) -> None:
        """Take the next turn now."""
        self._changed.set()

    async def _lead(self) -> Leadership:
        """Take or renew the lead if possible, and learn which coordinator has it.

        errors:  Superseded  a newer incarnation of this coordinator has it
        """
        leadership = await lead(
            self._session,
            self._incarnation,
            cluster_id=self._cluster_id,
            lease_s=self._settings.leader_lease_s,
            fresh=self._fresh,
            identity=self._settings.identity,
        )
        self._fresh = False
        self._learn_lead(leadership)
        return leadership

    def _learn_lead(self, leadership: Leadership) -> None:
        """Learn whether we lead; while another cluster leads, our keepers stand by: they run without slots."""
        if not leadership.leads and leadership.leader is not None and leadership.cluster_id == self._cluster_id:
            raise Superseded
        if leadership.leads != self._leads:
            self._log.info("leads" if leadership.leads else "stands by", term=leadership.term)
        self._leads = leadership.leads

    async def _wind_down(self) -> None:
        try:
            for crew in self._crews:
                await crew.adopt()
            # First list our holders, then make sure that we still lead: in this order none of them is a successor's.
            there = {holder.holder for holder in await self._own_holders()}
            await self._lead()
            await resign(self._session, self._incarnation)
            await self._scaling.stand_by()
            await self._hand_over()
            retired = {
                name for names in await asyncio.gather(*(crew.retire() for crew in self._crews)) for name in names
            }
            left = [h for h in await self._own_holders() if h.holder in there or h.actor_name in retired]
            await end_holders(self._session, [h.holder for h in left], why="stopped")
        except (StoreUnavailable, StatementRefused, FleetUnavailable) as error:
            self._log.warning("stopped without handing back; leases run out by themselves", error=str(error))

    async def _own_holders(self) -> list[Holder]:
        return [h for h in await list_holders(self._session) if h.cluster_id == self._cluster_id]

    async def _hand_over(self) -> None:
        """Wait until a cluster that stands by has taken our keepers' slots; if none stands by, don't wait."""
        deadline = time.monotonic() + self._settings.handover_s
        while time.monotonic() < deadline:
            holders = await list_holders(self._session)
            keep = {h.role for h in holders if h.cluster_id == self._cluster_id and h.part is not None}
            successors = {
                h.role
                for h in holders
                if h.cluster_id != self._cluster_id
                and h.silent_s < self._settings.silent_s
                and h.foreign_reason is None
            }
            if keep.isdisjoint(successors):
                return
            await asyncio.sleep(HANDED_OVER_S)

    async def _close(self) -> None:
        self._report(leaving=True)
        self._reporter.close()
        await self._scaling.close()
        await self._session.close()

    def _report(self, *, leaving: bool = False) -> None:
        source, crews = f"coordinator {self._incarnation:016x}", [crew.stats for crew in self._crews]
        self._reporter.send(report(source, fleet=self._kind, leads=bool(self._leads), crews=crews, leaving=leaving))
