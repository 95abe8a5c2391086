"""Run one iteration of the reconcile loop for one role: find the running keepers, decide, and act."""

import time
from collections.abc import Callable, Mapping, Sequence

from structlog.typing import FilteringBoundLogger

from shardclock_server.coordinator.backoff import STARTING_S, SpawnBackoff, StartWatch
from shardclock_server.coordinator.fleet import LOCAL, Fleet
from shardclock_server.coordinator.heartbeat_monitor import HeartbeatMonitor
from shardclock_server.coordinator.holders_seen import HoldersSeen
from shardclock_server.coordinator.keeper_processes import KeeperProcesses
from shardclock_server.coordinator.lost_holders import NEVER_STARTED, SILENT, UNREACHABLE, lost_holders, silent_holders
from shardclock_server.coordinator.quarantine import Quarantine
from shardclock_server.coordinator.settings import CoordinatorSettings
from shardclock_server.coordinator.stand_by import StandBy
from shardclock_server.coordinator.stats import CrewStats
from shardclock_server.coordinator.takeover_plan import Observed, Plan, plan, plan_to_go
from shardclock_server.sql.claims.notifications import notify_of_due_timers
from shardclock_server.sql.cluster.holders import SHARD, WORKER, Holder, assign, cut_off, end_holders
from shardclock_server.sql.cluster.leadership import Leadership
from shardclock_server.sql.session import Session, StatementRefused


class Crew:
    """Keep the desired number of keepers of one role running, and distribute all slots among these keepers.

    `changed` is called when a keeper has ended. With `stand_by`, keepers run only while the cluster leads.
    """

    def __init__(
        self,
        fleet: Fleet,
        settings: CoordinatorSettings,
        session: Session,
        *,
        cluster_id: str,
        changed: Callable[[], None],
        log: FilteringBoundLogger,
        stand_by: StandBy | None = None,
    ) -> None:
        self.role = fleet.role
        self.stats = CrewStats(fleet.role)
        self._fleet = fleet
        self._settings = settings
        self._session = session
        self._cluster_id = cluster_id
        self._stand_by = stand_by
        # A retired shard releases its timers, and other shards fire them. A retired worker first finishes its calls. If
        # another cluster has taken over the slots, a retired shard first fires its leased timers, because their release
        # would delay them.
        self._finish_s = settings.finish_s if fleet.role == WORKER or stand_by is not None else 0.0
        self._log = log.bind(role=fleet.role)
        self._processes = KeeperProcesses(
            fleet, changed=changed, start_s=settings.start_s, drain_s=settings.drain_s, log=self._log
        )
        self._heartbeats = HeartbeatMonitor(reconnect_s=settings.retry_max_s)
        self._backoff = SpawnBackoff()
        self._starts = StartWatch()
        self._quarantine = Quarantine()
        self._told_quarantined: set[str] = set()
        self._nodes: Sequence[str] = ()

    async def turn(self, leadership: Leadership, wanted: int, seen: HoldersSeen) -> None:
        """Run one iteration for the given holders: decide, and execute the steps.

        errors:  StoreUnavailable, StatementRefused, FleetUnavailable  the iteration was not completed: call again
        """
        await self._processes.adopt()
        if await self._suspend(leadership, wanted, seen):
            seen = await HoldersSeen.read(self._session)
        self._nodes = await self._fleet.nodes()
        observed = self._observe(await self._take_over(leadership, seen))
        goes = self._stand_by is not None and not leadership.leads
        await self._act(plan_to_go(observed) if goes else plan(wanted, observed), leadership)

    async def _suspend(self, leadership: Leadership, wanted: int, seen: HoldersSeen) -> bool:
        """Assign the slots of silent keepers to other keepers; return whether any slot was reassigned.

        The method uses the list of nodes from the previous iteration, because a busy Ray head answers late.
        """
        holders, _ = self._watched(seen)
        mine = {it.actor_name: it for it in holders if it.cluster_id == self._cluster_id}
        is_suspect = any(not mine[name].suspended_at for name in self._suspects(mine) & mine.keys())
        if not (leadership.leads and is_suspect and self._nodes):
            return False
        todo = plan(wanted, self._observe(holders))
        return bool(todo.suspend) and await self._assign(todo, leadership)

    async def turn_without_fleet(self, leadership: Leadership, wanted: int, seen: HoldersSeen) -> None:
        """Run one iteration without the fleet, which does not answer: end the silent holders, and reassign their slots.

        If this coordinator supervises no keepers, the method changes nothing, because it can't know which holders
        belong to this cluster.

        errors:  StoreUnavailable, StatementRefused  the iteration was not completed: call again
        """
        if not self._processes.names():
            return
        holders, silent = self._watched(seen)
        lost = silent_holders(holders, supervised=self._processes.names(), silent=silent, leads=leadership.leads)
        await self._end(lost, leadership)
        todo = plan(wanted, self._observe([h for h in holders if h.holder not in lost]))
        if todo.assign and leadership.leads:
            await self._assign(todo, leadership)

    async def adopt(self) -> None:
        """Supervise the actors that were started by an earlier coordinator of this cluster.

        errors:  FleetUnavailable  no answer before the timeout
        """
        await self._processes.adopt()

    async def retire(self) -> set[str]:
        """Drain all actors; return their names.

        errors:  FleetUnavailable  no answer before the timeout
        """
        retired = self._processes.names()
        await self._processes.retire_all()
        return retired

    async def abandon(self) -> None:
        """Cancel the running drains."""
        await self._processes.abandon()

    def forget_silence(self) -> None:
        """Reset the measured silences of all keepers, because no keeper could send a heartbeat."""
        self._heartbeats.forget()

    @property
    def suspects_in_s(self) -> float:
        """Return the time until the next keeper becomes suspect, if this keeper sends no heartbeat."""
        return self._heartbeats.silent_in_s(longer_than_s=self._settings.suspect_s, now_s=time.monotonic())

    @property
    def has_keepers(self) -> bool:
        """Return whether keepers are supervised."""
        return bool(self._processes.names())

    @property
    def is_starting(self) -> bool:
        """Return whether a keeper was started a short time ago and has not registered yet."""
        return self._processes.is_starting

    @property
    def needs_processors(self) -> bool:
        """Return whether the first local shards are starting. They need the processors for about 0.1 s.

        The keepers of other roles start only after these shards have registered.
        """
        return self.role == SHARD and self._fleet.kind == LOCAL and self._processes.starts_from_nothing

    @property
    def is_stuck(self) -> bool:
        """Return whether no keeper runs, and starts have failed for longer than the time limit of one start."""
        return self._starts.failing_s(now_s=time.monotonic()) >= self._settings.start_s

    def _observe(self, holders: Sequence[Holder]) -> Observed:
        """Return the actual state for the plan, without actors that have ended."""
        now_s = time.monotonic()
        mine = {h.actor_name: h for h in holders if h.cluster_id == self._cluster_id}
        late = self._processes.learn_starts(mine, stalled_s=self._settings.stalled_s)
        keepers = self._processes.keepers(mine, self._suspects(mine))
        self._quarantine.fail(late, now_s=now_s)
        self._quarantine.learn_nodes(keepers, self._nodes, now_s=now_s)
        quarantined = self._quarantine.nodes(now_s=now_s)
        # The only node of a cluster is not avoided: it is used even in quarantine.
        self._tell_avoided(quarantined if len(self._nodes) > 1 else ())
        return Observed(
            keepers=keepers,
            nodes=self._nodes,
            quarantined=quarantined,
            foreign_holders=[h.holder for h in holders if h.cluster_id != self._cluster_id and h.part is not None],
        )

    def _tell_avoided(self, node_ids: Sequence[str]) -> None:
        if set(node_ids) == self._told_quarantined:
            return
        self._told_quarantined = set(node_ids)
        if node_ids:
            why = "an actor on the node went silent, or did not start in time"
            self._log.warning("quarantine", nodes=[node_id[:12] for node_id in node_ids], why=why)
        else:
            self._log.info("quarantine over")

    def _watched(self, seen: HoldersSeen) -> tuple[list[Holder], set[str]]:
        """Return the role's holders of all clusters, and the names of silent actors.

        Supervised silent actors are recorded as lost.
        """
        holders = seen.of(self.role)
        signs = {holder.actor_name: holder.seen_at for holder in holders}
        self._heartbeats.check(signs, {it.actor_name: it.silent_s for it in holders}, now_s=seen.read_s)
        silent = self._heartbeats.silent(longer_than_s=self._settings.silent_s)
        self._processes.give_up(silent, SILENT)
        return holders, silent

    async def _take_over(self, leadership: Leadership, seen: HoldersSeen) -> list[Holder]:
        """End the lost holders, and stop supervising the actors that have ended or are silent.

        The actors' processes are killed later, after the assignment of slots.

        shape:   returns the remaining holders of all clusters
        """
        holders, silent = self._watched(seen)
        mine = {holder.actor_name: holder for holder in holders if holder.cluster_id == self._cluster_id}
        gone = self._processes.gone()
        late = self._processes.overdue_to_start(mine)
        gone |= dict.fromkeys(late, NEVER_STARTED)
        # An actor that has not started in time has no holder, so end_holders() doesn't report it.
        self.stats.takeovers.update(["never_started"] * len(late))
        # At this point, `gone` has all actors of this cluster that have ended, are silent, or did not start in time.
        lost = lost_holders(
            holders,
            cluster_id=self._cluster_id,
            supervised=self._processes,
            gone=gone,
            silent=silent,
            leads=leadership.leads,
            orphans=self._stand_by.orphans if self._stand_by is not None and leadership.leads else (),
        )
        await self._end(lost, leadership)
        has_keepers = any(it.holder not in lost for it in mine.values())
        self._starts.learn(given_up=bool(late), has_keepers=has_keepers, now_s=time.monotonic())
        self._learn(gone, mine)
        self._processes.drop(gone)
        return [h for h in holders if h.holder not in lost]

    async def _end(self, lost: Mapping[int, str], leadership: Leadership) -> None:
        """End holders, and record the reason for each.

        The statement checks this coordinator's term. So a coordinator that was frozen, with an old term, can't end the
        holders of the coordinator that leads now.
        """
        if lost and (ended := await end_holders(self._session, list(lost), why="dead", term=leadership.term)):
            await self._cut_off([it.holder for it in ended])
            self.stats.count_takeovers(ended, lost)
            self._log.warning("took over", why={f"{it.holder:016x}": lost[it.holder] for it in ended})

    async def _cut_off(self, holders: Sequence[int]) -> None:
        """Terminate the Postgres sessions of holders, because a frozen process may have locked rows."""
        try:
            await cut_off(self._session, holders)
        except StatementRefused as error:
            self._log.warning("could not cut off", error=str(error))

    def _learn(self, gone: dict[str, str], mine: dict[str, Holder]) -> None:
        """Quarantine the nodes on which actors failed; if actors failed on all nodes, pause all starts instead."""
        now_s = time.monotonic()
        ages_s = {name: self._processes.age_s(name) for name in gone}
        lost = [
            mine[name].node_id if name in mine else self._processes.node_id(name)
            for name, why in gone.items()
            if why in (UNREACHABLE, SILENT) or ages_s[name] < STARTING_S
        ]
        self._quarantine.fail(lost, now_s=now_s)
        everywhere = set(self._nodes) <= set(self._quarantine.nodes(now_s=now_s))
        self._backoff.learn_ages((it for it in ages_s.values() if everywhere or it >= STARTING_S), now_s=now_s)

    def _suspects(self, mine: dict[str, Holder]) -> set[str]:
        """Return this cluster's keepers that are silent, or that are suspended and have sent no new heartbeat."""
        suspended = (name for name, holder in mine.items() if holder.suspended_at)
        return self._heartbeats.silent(longer_than_s=self._settings.suspect_s) | self._heartbeats.unheard(suspended)

    async def _act(self, todo: Plan, leadership: Leadership) -> None:
        if todo.assign and leadership.leads and not await self._assign(todo, leadership):
            return  # this cluster no longer leads; the next iteration finds out which coordinator leads
        for node_id in todo.spawn if self._backoff.may_spawn(now_s=time.monotonic()) else ():
            await self._processes.spawn(node_id)
            self.stats.started += 1
        # A keeper without slots makes no new claims, and finishes its claimed timers and deliveries.
        self._processes.retire(self._processes.finished(todo.retire, finish_s=self._finish_s))
        # Kill lost actors last, because an actor that can't be killed must not delay the assignment of slots and the
        # new keepers.
        await self._processes.kill_dropped()

    async def _assign(self, todo: Plan, leadership: Leadership) -> bool:
        """Assign all slots in one statement; return False if this coordinator no longer leads."""
        assert leadership.leader is not None, "we lead"
        assigned = await assign(
            self._session,
            leader=leadership.leader,
            term=leadership.term,
            parts=todo.assign,
            part_count=todo.part_count,
            suspended=todo.suspend,
        )
        if assigned:
            self.stats.suspended += len(todo.suspend)
            if todo.suspend:
                self._log.warning("suspended", holders=[f"{holder:016x}" for holder in todo.suspend])
                await self._cut_off(todo.suspend)
            if self.role == SHARD:
                # wake the keepers, so that the timers of their new slots don't wait for a poll
                await notify_of_due_timers(self._session)
            if todo.resume:
                self._log.info("resumed", holders=[f"{holder:016x}" for holder in todo.resume])
            self._log.info("assigned", part_count=todo.part_count)
        return assigned
