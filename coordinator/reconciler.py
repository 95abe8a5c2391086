"""The coordinator's reconcile loop, and one turn of it."""

import asyncio
import time
from collections.abc import Sequence

import structlog

from coordinator.backoff import STARTING_S, SpawnBackoff
from coordinator.failure_detector import FailureDetector
from coordinator.fleet import RayFleet, RayUnavailable
from coordinator.plan import Fleet, Plan, plan
from coordinator.quarantine import Quarantine
from coordinator.retention import Retention
from coordinator.scaling import Scaling
from coordinator.settings import CoordinatorSettings
from coordinator.stats import NEVER_STARTED, SILENT, UNREACHABLE, CoordinatorStats
from coordinator.supervisor import Supervisor
from keepers.loops import pause
from metrics.report import Reporter
from sql.cluster.holders import Holder, assign, cut_off, end_holders, list_holders
from sql.cluster.leadership import Leadership, lead, resign
from sql.dsn import Dsn
from sql.session import Session, StatementRefused, StoreUnavailable

HANDED_OVER_S = 0.1  # between two checks whether another cluster has taken the slots


class Superseded(Exception):
    """A newer incarnation of this coordinator leads; this one must do nothing more."""


class Reconciler:
    """Bring the actual shard actors to the desired state; leave the slots alone while another cluster leads."""

    def __init__(
        self, settings: CoordinatorSettings, *, dsn: Dsn | str, cluster_id: str, incarnation: int, fleet: RayFleet
    ) -> None:
        self._settings = settings
        self._cluster_id = cluster_id
        self._incarnation = incarnation
        self._fleet = fleet
        self._session = Session(dsn, application="shardclock coordinator", timeout_s=settings.coordinator_timeout_s)
        self._log = structlog.get_logger().bind(coordinator=f"{incarnation:016x}")
        self._supervisor = Supervisor(
            fleet, changed=self.wake, start_s=settings.start_s, drain_s=settings.drain_s, log=self._log
        )
        self._detector = FailureDetector()
        self._backoff = SpawnBackoff()
        self._quarantine = Quarantine()
        self._told_quarantined: set[str] = set()
        self._fresh = True
        self._retention = Retention(self._session, keep_days=settings.retention_days)
        self._scaling = Scaling(settings, self._session, fleet.ask_for_nodes)
        self._stats = CoordinatorStats()
        self._reporter = Reporter(settings.metrics_socket)
        self._changed = asyncio.Event()
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
                failing = False
            except (StoreUnavailable, StatementRefused, RayUnavailable) as error:
                # Without news from Postgres no shard can be called silent.
                self._detector.forget()
                if not failing:
                    self._log.warning("turn failed", error=str(error))
                failing = True
            self._report()
            await pause(self._settings.reconcile_s, self._changed)

    async def turn(self) -> None:
        """Make one turn: read, decide, act."""
        leadership = await self._lead()
        wanted = leadership.shards_wanted
        if leadership.leads:
            await self._retention.turn()
            wanted = await self._scaling.turn(leadership, self._incarnation)
        else:
            await self._scaling.rest()
        await self._supervisor.adopt()
        nodes = await self._fleet.nodes()
        holders = await self._living_holders(nodes, leadership)
        await self._act(plan(wanted, self._look(holders, nodes)), leadership)

    def stop(self) -> None:
        """Ask the loop to end; `run` then drains every shard and gives up the lead."""
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
        """Learn whether we lead; while another cluster leads, our shards stand by: they run without slots."""
        if not leadership.leads and leadership.leader is not None and leadership.cluster_id == self._cluster_id:
            raise Superseded
        if leadership.leads != self._stats.leads:
            self._log.info("leads" if leadership.leads else "stands by", term=leadership.term)
            if leadership.leads:
                # An older leader without stand-by killed our shards at once; those failures say nothing now.
                self._backoff.reset()
                self._quarantine.reset()
        self._stats.leads = leadership.leads

    async def _wind_down(self) -> None:
        try:
            await self._supervisor.adopt()
            # List our holders before we make sure that we still lead: then none of them is a successor's.
            there = {holder.holder for holder in await self._own_holders()}
            await self._lead()
            await resign(self._session, self._incarnation)
            await self._scaling.rest()
            await self._hand_over()
            retired = self._supervisor.names()
            await self._supervisor.retire()
            left = [h for h in await self._own_holders() if h.holder in there or h.actor_name in retired]
            await end_holders(self._session, [h.holder for h in left], why="stopped")
        except (StoreUnavailable, StatementRefused, RayUnavailable) as error:
            self._log.warning("stopped without handing back; leases run out by themselves", error=str(error))

    async def _own_holders(self) -> list[Holder]:
        return [h for h in await list_holders(self._session) if h.cluster_id == self._cluster_id]

    async def _hand_over(self) -> None:
        """Let our shards fire until a cluster that stands by has taken their slots; without one, don't wait."""
        deadline = time.monotonic() + self._settings.handover_s
        while time.monotonic() < deadline:
            holders = await list_holders(self._session)
            keep = any(h.shard is not None for h in holders if h.cluster_id == self._cluster_id)
            successors = any(
                h.silent_s < self._settings.silent_s and h.hold_reason is None
                for h in holders
                if h.cluster_id != self._cluster_id
            )
            if not keep or not successors:
                return
            await asyncio.sleep(HANDED_OVER_S)

    async def _close(self) -> None:
        self._report(leaving=True)
        self._reporter.close()
        await self._scaling.close()
        await self._session.close()

    def _report(self, *, leaving: bool = False) -> None:
        self._reporter.send(self._stats.report(f"coordinator {self._incarnation:016x}", leaving=leaving))

    def _look(self, holders: Sequence[Holder], nodes: Sequence[str]) -> Fleet:
        """Put the actual state together, without the actors that are gone."""
        now_s = time.monotonic()
        mine = {h.actor_name: h for h in holders if h.cluster_id == self._cluster_id}
        late = self._supervisor.look(mine, stalled_s=self._settings.stalled_s)
        members = self._supervisor.members(mine, self._suspects(mine))
        self._quarantine.fail(late, now_s=now_s)
        self._quarantine.look(members, nodes, now_s=now_s)
        quarantined = self._quarantine.nodes(now_s=now_s)
        if set(quarantined) != self._told_quarantined:
            self._told_quarantined = set(quarantined)
            self._log.warning("quarantine", nodes=[node_id[:12] for node_id in quarantined])
        return Fleet(
            members=members,
            nodes=nodes,
            quarantined=quarantined,
            foreign_holders=[h.holder for h in holders if h.cluster_id != self._cluster_id and h.shard is not None],
        )

    async def _living_holders(self, nodes: Sequence[str], leadership: Leadership) -> list[Holder]:
        """Read the holders, end ours that are gone and drop their actors; the leader ends silent ones of all clusters.

        shape:   the living holders, also those of other clusters
        """
        holders = await list_holders(self._session)
        mine = {holder.actor_name: holder for holder in holders if holder.cluster_id == self._cluster_id}
        self._detector.check({holder.actor_name: holder.seen_at for holder in holders}, now_s=time.monotonic())
        silent = self._detector.silent(longer_than_s=self._settings.silent_s)
        self._supervisor.give_up(silent, SILENT)
        gone = self._supervisor.gone()
        late = self._supervisor.overdue_to_start(mine)
        gone |= dict.fromkeys(late, NEVER_STARTED)
        self._stats.takeovers.update(
            ["never_started"] * len(late)
        )  # these never registered, so end_holders() doesn't report them
        # When Ray's head is lost, the old shards may fire on without it. End them only once one of the new shards runs.
        relieved = any(name in self._supervisor for name in mine)
        dead = {
            h.holder: gone.get(h.actor_name, SILENT if h.actor_name in silent else "")
            for h in holders
            if h.actor_name in gone
            or (relieved and h.cluster_id == self._cluster_id and h.actor_name not in self._supervisor)
            or (leadership.leads and h.actor_name in silent)
        }
        # Only while this term lasts, whether we lead or stand by: a coordinator that was frozen must not end the
        # holders that its successor has started.
        if dead and (ended := await end_holders(self._session, list(dead), why="dead", term=leadership.term)):
            await self._cut_off([it.holder for it in ended])
            self._stats.take_over(ended, dead)
            self._log.warning("took over", holders=[f"{it.holder:016x}" for it in ended], why=gone)
        self._learn(gone, mine, nodes)
        await self._supervisor.drop(gone)
        return [h for h in holders if h.holder not in dead]

    async def _cut_off(self, holders: Sequence[int]) -> None:
        """Free the rows that a frozen process may have locked in the middle of a claim or a firing."""
        try:
            await cut_off(self._session, holders)
        except StatementRefused as error:
            self._log.warning("could not cut off", error=str(error))

    def _learn(self, gone: dict[str, str], mine: dict[str, Holder], nodes: Sequence[str]) -> None:
        """Quarantine the nodes on which actors failed; if that is every node, the cause is elsewhere: back off."""
        now_s = time.monotonic()
        ages_s = {name: self._supervisor.age_s(name) for name in gone}
        lost = [
            mine[name].node_id if name in mine else self._supervisor.node_id(name)
            for name, why in gone.items()
            if why in (UNREACHABLE, SILENT) or ages_s[name] < STARTING_S
        ]
        self._quarantine.fail(lost, now_s=now_s)
        everywhere = set(nodes) <= set(self._quarantine.nodes(now_s=now_s))
        self._backoff.learn_ages((it for it in ages_s.values() if everywhere or it >= STARTING_S), now_s=now_s)

    def _suspects(self, mine: dict[str, Holder]) -> set[str]:
        """Name our shards that may be gone: silent ones, and suspended ones that have given no sign of life since."""
        suspended = (name for name, holder in mine.items() if holder.suspended_at)
        return self._detector.silent(longer_than_s=self._settings.suspect_s) | self._detector.unheard(suspended)

    async def _act(self, todo: Plan, leadership: Leadership) -> None:
        if todo.assign and leadership.leads and not await self._assign(todo, leadership):
            return  # we no longer lead: the next turn finds out which coordinator does
        for node_id in todo.spawn if self._backoff.may_spawn(now_s=time.monotonic()) else ():
            await self._supervisor.spawn(node_id)
            self._stats.started += 1
        await self._supervisor.retire([member.actor_name for member in todo.retire])

    async def _assign(self, todo: Plan, leadership: Leadership) -> bool:
        """Give all shards their part in one statement; False if this coordinator no longer leads."""
        assigned = await assign(
            self._session,
            leader=self._incarnation,
            term=leadership.term,
            shards=todo.assign,
            shard_count=todo.shard_count,
            suspended=todo.suspend,
        )
        if assigned:
            self._stats.suspended += len(todo.suspend)
            if todo.suspend:
                self._log.warning("suspended", holders=[f"{holder:016x}" for holder in todo.suspend])
                await self._cut_off(todo.suspend)
            if todo.resume:
                self._log.info("resumed", holders=[f"{holder:016x}" for holder in todo.resume])
            self._log.info("assigned", shard_count=todo.shard_count, wanted=leadership.shards_wanted)
        return assigned
