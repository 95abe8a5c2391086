"""The coordinator's loop, and one turn of it."""

import asyncio
import time
from collections.abc import Sequence

import structlog

from coordinator.account import UNREACHABLE, Account
from coordinator.caution import Caution
from coordinator.fleet import RayFleet, RayUnavailable
from coordinator.plan import Fleet, Plan, plan
from coordinator.retention import Retention
from coordinator.scaling import Scaling
from coordinator.settings import CoordinatorSettings
from coordinator.silence import Silence
from coordinator.wards import Wards
from metrics.report import Reporter
from sql.holders import Holder, assign, cut_off, end_holders, list_holders
from sql.leadership import Leadership, lead, resign
from sql.session import Session, StatementRefused, StoreUnavailable

HANDED_OVER_S = 0.1  # between two looks whether another cluster serves


class Superseded(Exception):
    """A newer incarnation of this coordinator leads; this one must do nothing more."""


class Reconciler:
    """Bring the shard actors to what is wanted, for as long as this coordinator leads."""

    def __init__(self, settings: CoordinatorSettings, *, cluster_id: str, incarnation: int, fleet: RayFleet) -> None:
        self._settings = settings
        self._cluster_id = cluster_id
        self._incarnation = incarnation
        self._fleet = fleet
        self._session = Session(
            settings.dsn, application="shardclock coordinator", timeout_s=settings.coordinator_timeout_s
        )
        self._log = structlog.get_logger().bind(coordinator=f"{incarnation:016x}")
        self._wards = Wards(fleet, changed=self.wake, start_s=settings.start_s, drain_s=settings.drain_s, log=self._log)
        self._silence = Silence()
        self._caution = Caution()
        self._fresh = True
        self._retention = Retention(self._session, keep_days=settings.retention_days)
        self._scaling = Scaling(settings, self._session, fleet.ask_for_nodes)
        self._account = Account()
        self._reporter = Reporter(settings.metrics_socket)
        self._changed = asyncio.Event()
        self._stopping = False

    async def run(self) -> None:
        """Take turns until stopped or superseded; a turn that fails is logged and taken again."""
        failing = False
        while not self._stopping:
            self._changed.clear()
            try:
                await self.turn()
                failing = False
            except Superseded:
                self._log.warning("superseded")
                await self._close()
                return
            except (StoreUnavailable, StatementRefused, RayUnavailable) as error:
                # Without news of Postgres nobody can be called silent.
                self._silence.forget()
                if not failing:
                    self._log.warning("turn failed", error=str(error))
                failing = True
            self._report()
            await self._pause()
        await self._wind_down()
        await self._close()

    async def turn(self) -> None:
        """Read, decide, act: once."""
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
        wanted = leadership.shards_wanted
        if leadership.leads:
            await self._retention.turn()
            wanted = await self._scaling.turn(leadership, self._incarnation)
        else:
            await self._scaling.rest()
        await self._wards.adopt()
        holders = await self._living_holders(leads=leadership.leads)
        mine = {h.actor_name: h for h in holders if h.cluster_id == self._cluster_id}
        fleet = Fleet(
            members=self._wards.members(mine, self._suspects(mine)),
            nodes=await self._fleet.nodes(),
            suspects=self._caution.suspects(now_s=time.monotonic()),
            guests=[h.holder for h in holders if h.cluster_id != self._cluster_id and h.shard is not None],
        )
        await self._act(plan(wanted, fleet), leadership)

    def stop(self) -> None:
        """Ask the loop to end; `run` then drains every shard and hands the lease back."""
        self._stopping = True
        self.wake()

    def wake(self) -> None:
        """Take the next turn now."""
        self._changed.set()

    def _learn_lead(self, leadership: Leadership) -> None:
        """Take note of who leads; while another cluster does, our shards stand by: started, and without slots."""
        if not leadership.leads and leadership.leader is not None and leadership.cluster_id == self._cluster_id:
            raise Superseded
        if leadership.leads != self._account.leads:
            self._log.info("leads" if leadership.leads else "stands by", term=leadership.term)
            if leadership.leads:
                self._caution.pardon()  # a leader of the release before stand-by ends our shards as fast as they start
        self._account.leads = leadership.leads

    async def _wind_down(self) -> None:
        try:
            await self._wards.adopt()
            await resign(self._session, self._incarnation)
            await self._scaling.rest()
            await self._hand_over()
            await self._wards.retire()
            left = [h for h in await list_holders(self._session) if h.cluster_id == self._cluster_id]
            await end_holders(self._session, [h.holder for h in left], why="stopped")
        except (StoreUnavailable, StatementRefused, RayUnavailable) as error:
            self._log.warning("stopped without handing back; leases run out by themselves", error=str(error))

    async def _hand_over(self) -> None:
        """Let our shards fire on until a cluster that stands by has taken their slots; without one, don't wait."""
        deadline = time.monotonic() + self._settings.handover_s
        while time.monotonic() < deadline:
            holders = await list_holders(self._session)
            keep = any(h.shard is not None for h in holders if h.cluster_id == self._cluster_id)
            heirs = any(
                h.silent_s < self._settings.silent_s and h.held_why is None
                for h in holders
                if h.cluster_id != self._cluster_id
            )
            if not keep or not heirs:
                return
            await asyncio.sleep(HANDED_OVER_S)

    async def _close(self) -> None:
        self._report(leaving=True)
        self._reporter.close()
        await self._scaling.close()
        await self._session.close()

    def _report(self, *, leaving: bool = False) -> None:
        self._reporter.send(self._account.report(f"coordinator {self._incarnation:016x}", leaving=leaving))

    async def _living_holders(self, *, leads: bool) -> list[Holder]:
        """Read the holders, end those of ours that are gone, and drop their actors; who leads ends anybody silent.

        shape:   the living holders, other clusters' among them
        """
        holders = await list_holders(self._session)
        mine = {holder.actor_name: holder for holder in holders if holder.cluster_id == self._cluster_id}
        self._silence.look({holder.actor_name: holder.seen_at for holder in holders}, now_s=time.monotonic())
        silent = self._silence.longer_than(self._settings.silent_s)
        self._wards.give_up(silent, "silent")
        gone = self._wards.gone()
        late = self._wards.overdue_to_start(mine)
        gone |= dict.fromkeys(late, "never started")
        self._account.takeovers.update(["never_started"] * len(late))  # nobody's holder, so not among the ended
        dead = {
            h.holder: gone.get(h.actor_name, "silent" if h.actor_name in silent else "")
            for h in holders
            if h.actor_name in gone
            or (h.cluster_id == self._cluster_id and h.actor_name not in self._wards)
            or (leads and h.actor_name in silent)
        }
        if dead:
            ended = await end_holders(self._session, list(dead), why="dead")
            await self._cut_off(list(dead))
            self._account.take_over(ended, dead)
            self._log.warning("took over", holders=[f"{it.holder:016x}" for it in ended], why=gone)
        self._learn(gone, mine)
        await self._wards.drop(gone)
        return [h for h in holders if h.holder not in dead]

    async def _cut_off(self, holders: Sequence[int]) -> None:
        """Free what a frozen process may have locked in the middle of a claim or a firing."""
        try:
            await cut_off(self._session, holders)
        except StatementRefused as error:
            self._log.warning("could not cut off", error=str(error))

    def _learn(self, gone: dict[str, str], mine: dict[str, Holder]) -> None:
        now_s = time.monotonic()
        self._caution.learn_ages((self._wards.age_s(name) for name in gone), now_s=now_s)
        for actor_name, why in gone.items():
            if why == UNREACHABLE:
                holder = mine.get(actor_name)
                self._caution.suspect(holder.node_id if holder else self._wards.node_id(actor_name), now_s=now_s)

    def _suspects(self, mine: dict[str, Holder]) -> set[str]:
        """Name those of ours that may be gone; one that is suspended must be heard before it is counted on again."""
        suspended = (name for name, holder in mine.items() if holder.suspended_at)
        return self._silence.longer_than(self._settings.suspect_s) | self._silence.unheard(suspended)

    async def _act(self, todo: Plan, leadership: Leadership) -> None:
        if todo.assign and leadership.leads and not await self._assign(todo, leadership):
            return  # no longer leading: the next turn finds out
        for node_id in todo.spawn if self._caution.may_spawn(now_s=time.monotonic()) else ():
            await self._wards.spawn(node_id)
            self._account.started += 1
        await self._wards.retire([member.actor_name for member in todo.retire])

    async def _assign(self, todo: Plan, leadership: Leadership) -> bool:
        """Give all shards their part at once; False if this coordinator no longer leads."""
        assigned = await assign(
            self._session,
            leader=self._incarnation,
            term=leadership.term,
            shards=todo.assign,
            shard_count=todo.shard_count,
            suspended=todo.suspend,
        )
        if assigned:
            self._account.suspended += len(todo.suspend)
            if todo.suspend:
                self._log.warning("suspended", holders=[f"{holder:016x}" for holder in todo.suspend])
                await self._cut_off(todo.suspend)
            if todo.resume:
                self._log.info("resumed", holders=[f"{holder:016x}" for holder in todo.resume])
            self._log.info("assigned", shard_count=todo.shard_count, wanted=leadership.shards_wanted)
        return assigned

    async def _pause(self) -> None:
        try:
            async with asyncio.timeout(self._settings.reconcile_s):
                await self._changed.wait()
        except TimeoutError:
            return
