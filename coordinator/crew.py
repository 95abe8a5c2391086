"""One turn for the keepers of one role: learn which of them live, decide, and act on the difference."""

import time
from collections.abc import Callable, Mapping, Sequence

from structlog.typing import FilteringBoundLogger

from shardclock_server.coordinator.backoff import STARTING_S, SpawnBackoff, StartWatch
from shardclock_server.coordinator.failure_detector import FailureDetector
from shardclock_server.coordinator.fleet import Fleet
from shardclock_server.coordinator.plan import Observed, Plan, plan
from shardclock_server.coordinator.quarantine import Quarantine
from shardclock_server.coordinator.settings import CoordinatorSettings
from shardclock_server.coordinator.stats import CrewStats
from shardclock_server.coordinator.supervisor import Supervisor
from shardclock_server.coordinator.takeover import NEVER_STARTED, SILENT, UNREACHABLE, lost_holders
from shardclock_server.sql.cluster.holders import WORKER, Holder, assign, cut_off, end_holders, list_holders
from shardclock_server.sql.cluster.leadership import Leadership
from shardclock_server.sql.session import Session, StatementRefused


class Crew:
    """Bring the keepers of one role, in one cluster, to the number that is wanted, and share all slots among them.

    `changed` is called when a keeper has ended.
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
    ) -> None:
        self.role = fleet.role
        self.stats = CrewStats(fleet.role)
        self._fleet = fleet
        self._settings = settings
        self._session = session
        self._cluster_id = cluster_id
        # A shard that goes leaves timers, which any other shard can fire. A worker that goes finishes its calls first.
        self._finish_s = settings.finish_s if fleet.role == WORKER else 0.0
        self._log = log.bind(role=fleet.role)
        self._supervisor = Supervisor(
            fleet, changed=changed, start_s=settings.start_s, drain_s=settings.drain_s, log=self._log
        )
        self._detector = FailureDetector()
        self._backoff = SpawnBackoff()
        self._starts = StartWatch()
        self._quarantine = Quarantine()
        self._told_quarantined: set[str] = set()
        self._nodes: Sequence[str] = ()

    async def turn(self, leadership: Leadership, wanted: int) -> None:
        """Make one turn: read, decide, act.

        errors:  StoreUnavailable, StatementRefused, FleetUnavailable  the turn ended half way: call again
        """
        await self._supervisor.adopt()
        self._nodes = await self._fleet.nodes()
        holders = await self._take_over(leadership)
        await self._act(plan(wanted, self._observe(holders)), leadership)

    async def turn_without_fleet(self, leadership: Leadership, wanted: int) -> None:
        """End the holders that are silent, and give their slots to the others: that takes Postgres alone.

        Earlier reports of a keeper's end may be wrong, and have no effect here. While no keeper is supervised,
        nothing is done at all: the owners of the holders are unknown then.

        errors:  StoreUnavailable, StatementRefused  the turn ended half way: call again
        """
        if not self._supervisor.names():
            return
        holders, silent = await self._watched()
        may_end = silent if leadership.leads else silent & self._supervisor.names()
        lost = {h.holder: SILENT for h in holders if h.actor_name in may_end}
        await self._end(lost, leadership)
        todo = plan(wanted, self._observe([h for h in holders if h.holder not in lost]))
        if todo.assign and leadership.leads:
            await self._assign(todo, leadership)

    async def adopt(self) -> None:
        """Supervise the actors that an earlier incarnation of the coordinator started.

        errors:  FleetUnavailable  no answer in time
        """
        await self._supervisor.adopt()

    async def retire(self) -> set[str]:
        """Drain all actors; return their names.

        errors:  FleetUnavailable  no answer in time
        """
        retired = self._supervisor.names()
        await self._supervisor.retire()
        return retired

    def forget_silence(self) -> None:
        """Forget who was silent and for how long, because there was no news of any keeper."""
        self._detector.forget()

    @property
    def is_starting(self) -> bool:
        """Say whether a keeper was started a moment ago, and has not registered yet."""
        return self._supervisor.is_starting

    @property
    def is_stuck(self) -> bool:
        """Say whether the role has no keeper, and starts were given up for as long as another start may take."""
        return self._starts.failing_s(now_s=time.monotonic()) >= self._settings.start_s

    def _observe(self, holders: Sequence[Holder]) -> Observed:
        """Describe the actual state; actors that are gone are left out."""
        now_s = time.monotonic()
        mine = {h.actor_name: h for h in holders if h.cluster_id == self._cluster_id}
        late = self._supervisor.learn_starts(mine, stalled_s=self._settings.stalled_s)
        keepers = self._supervisor.keepers(mine, self._suspects(mine))
        self._quarantine.fail(late, now_s=now_s)
        self._quarantine.learn_nodes(keepers, self._nodes, now_s=now_s)
        quarantined = self._quarantine.nodes(now_s=now_s)
        self._tell_avoided(quarantined if len(self._nodes) > 1 else ())  # the only node is used all the same
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
            why = "an actor there went silent, or did not start in time"
            self._log.warning("quarantine", nodes=[node_id[:12] for node_id in node_ids], why=why)
        else:
            self._log.info("quarantine over")

    async def _watched(self) -> tuple[list[Holder], set[str]]:
        """Read the holders, and name the actors of those that are silent; the supervised ones of these count as gone.

        shape:   also holders of other clusters
        """
        holders = await list_holders(self._session, self.role)
        self._detector.check({holder.actor_name: holder.seen_at for holder in holders}, now_s=time.monotonic())
        silent = self._detector.silent(longer_than_s=self._settings.silent_s)
        self._supervisor.give_up(silent, SILENT)
        return holders, silent

    async def _take_over(self, leadership: Leadership) -> list[Holder]:
        """Read the holders, end those that are lost, and drop the actors that are gone.

        shape:   the holders that are left, also those of other clusters
        """
        holders, silent = await self._watched()
        mine = {holder.actor_name: holder for holder in holders if holder.cluster_id == self._cluster_id}
        gone = self._supervisor.gone()
        late = self._supervisor.overdue_to_start(mine)
        gone |= dict.fromkeys(late, NEVER_STARTED)
        # These never registered, so end_holders() doesn't report them.
        self.stats.takeovers.update(["never_started"] * len(late))
        # `gone` now has each of our actors that has ended, is silent, or has never started.
        lost = lost_holders(
            holders,
            cluster_id=self._cluster_id,
            supervised=self._supervisor,
            gone=gone,
            silent=silent,
            leads=leadership.leads,
        )
        await self._end(lost, leadership)
        has_keepers = any(it.holder not in lost for it in mine.values())
        self._starts.learn(given_up=bool(late), has_keepers=has_keepers, now_s=time.monotonic())
        self._learn(gone, mine)
        await self._supervisor.drop(gone)
        return [h for h in holders if h.holder not in lost]

    async def _end(self, lost: Mapping[int, str], leadership: Leadership) -> None:
        """End holders, each with the reason.

        The statement ends them only while our term lasts. A coordinator that was frozen for longer could otherwise end
        holders that its successor has started.
        """
        if lost and (ended := await end_holders(self._session, list(lost), why="dead", term=leadership.term)):
            await self._cut_off([it.holder for it in ended])
            self.stats.count_takeovers(ended, lost)
            self._log.warning("took over", why={f"{it.holder:016x}": lost[it.holder] for it in ended})

    async def _cut_off(self, holders: Sequence[int]) -> None:
        """Free the rows that a frozen process may have locked in the middle of a claim or a firing."""
        try:
            await cut_off(self._session, holders)
        except StatementRefused as error:
            self._log.warning("could not cut off", error=str(error))

    def _learn(self, gone: dict[str, str], mine: dict[str, Holder]) -> None:
        """Quarantine the nodes on which actors failed; if that is every node, the cause is elsewhere: back off."""
        now_s = time.monotonic()
        ages_s = {name: self._supervisor.age_s(name) for name in gone}
        lost = [
            mine[name].node_id if name in mine else self._supervisor.node_id(name)
            for name, why in gone.items()
            if why in (UNREACHABLE, SILENT) or ages_s[name] < STARTING_S
        ]
        self._quarantine.fail(lost, now_s=now_s)
        everywhere = set(self._nodes) <= set(self._quarantine.nodes(now_s=now_s))
        self._backoff.learn_ages((it for it in ages_s.values() if everywhere or it >= STARTING_S), now_s=now_s)

    def _suspects(self, mine: dict[str, Holder]) -> set[str]:
        """Name our keepers that may be gone: silent ones, and suspended ones that have given no sign of life since."""
        suspended = (name for name, holder in mine.items() if holder.suspended_at)
        return self._detector.silent(longer_than_s=self._settings.suspect_s) | self._detector.unheard(suspended)

    async def _act(self, todo: Plan, leadership: Leadership) -> None:
        if todo.assign and leadership.leads and not await self._assign(todo, leadership):
            return  # we no longer lead: the next turn finds out which coordinator does
        for node_id in todo.spawn if self._backoff.may_spawn(now_s=time.monotonic()) else ():
            await self._supervisor.spawn(node_id)
            self.stats.started += 1
        # A keeper without slots claims nothing more. It finishes what it has in hand.
        await self._supervisor.retire(self._supervisor.finished(todo.retire, finish_s=self._finish_s))

    async def _assign(self, todo: Plan, leadership: Leadership) -> bool:
        """Give all keepers their part in one statement; False if this coordinator no longer leads."""
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
            if todo.resume:
                self._log.info("resumed", holders=[f"{holder:016x}" for holder in todo.resume])
            self._log.info("assigned", part_count=todo.part_count)
        return assigned
