"""Supervise the keepers of one role, from their start to their end."""

import asyncio
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from structlog.typing import FilteringBoundLogger

from shardclock_server.coordinator.fleet import Fleet, FleetUnavailable, KeeperHandle
from shardclock_server.coordinator.quarantine import Start, late_starts
from shardclock_server.coordinator.takeover_plan import KeeperState
from shardclock_server.sql.cluster.holders import Holder

SOON_S = 2.0  # a local keeper registers within 0.1 s of its start, an actor of Ray within 2 s on a quiet machine


@dataclass(slots=True)
class KeeperProcess:
    """One keeper that the coordinator supervises.

    `stalled`: the keeper did not start in time; the flag stays set after a late start. `drain` is the task that drains
    and ends the keeper, or None if the keeper is not retired.
    """

    handle: KeeperHandle
    node_id: str
    since: float
    watch: "asyncio.Task[None]"
    why_gone: str | None = None
    started_s: float | None = None
    stalled: bool = False
    drain: "asyncio.Task[None] | None" = None

    @property
    def is_draining(self) -> bool:
        """Return whether the keeper is draining, so that plans ignore it."""
        return self.drain is not None and not self.drain.done()


class KeeperProcesses:
    """Start keepers, watch them, and retire them.

    `changed` is called when an actor has ended.
    """

    def __init__(
        self, fleet: Fleet, *, changed: Callable[[], None], start_s: float, drain_s: float, log: FilteringBoundLogger
    ) -> None:
        self._fleet = fleet
        self._changed = changed
        self._start_s = start_s
        self._drain_s = drain_s
        self._processes: dict[str, KeeperProcess] = {}
        self._finishing: dict[str, float] = {}
        self._dropped: deque[KeeperHandle] = deque()
        self._log = log

    def __contains__(self, actor_name: object) -> bool:
        """Return whether an actor is supervised."""
        return actor_name in self._processes

    def names(self) -> set[str]:
        """Return the names of the supervised actors."""
        return set(self._processes)

    async def adopt(self) -> None:
        """Supervise the actors that an earlier coordinator has started, unless actors are supervised already.

        errors:  FleetUnavailable  no answer before the timeout
        """
        if self._processes:
            return
        for actor_name, handle in (await self._fleet.found()).items():
            self._watch_process(actor_name, handle, node_id="")

    async def spawn(self, node_id: str) -> None:
        """Start an actor on a node.

        errors:  FleetUnavailable  no answer before the timeout
        """
        actor_name, handle = await self._fleet.spawn(node_id)
        self._watch_process(actor_name, handle, node_id)

    def gone(self) -> dict[str, str]:
        """Return the actors that have ended or are unreachable, each with its reason; skip draining actors."""
        return {name: it.why_gone for name, it in self._processes.items() if it.why_gone and not it.is_draining}

    def give_up(self, actor_names: Iterable[str], why: str) -> None:
        """Record that the supervised actors among `actor_names` have ended or are silent."""
        for actor_name in self._processes.keys() & set(actor_names):
            self._processes[actor_name].why_gone = why

    def learn_starts(self, holders: Mapping[str, Holder], *, stalled_s: float) -> list[str]:
        """Record which actors have registered as holders, and which actors are late.

        shape:   returns the nodes of the actors that this call finds late for the first time
        """
        now_s = time.monotonic()
        for name, process in self._processes.items():
            if name in holders and process.started_s is None:
                process.started_s = now_s
        starts = {name: Start(it.node_id, it.since, it.started_s) for name, it in self._processes.items()}
        late = [self._processes[name] for name in late_starts(starts, limit_s=stalled_s, now_s=now_s)]
        new = [process.node_id for process in late if not process.stalled]
        for process in late:
            process.stalled = True
        return new

    @property
    def is_starting(self) -> bool:
        """Return whether a keeper was started less than `SOON_S` ago and has not registered yet."""
        since = time.monotonic() - SOON_S
        return any(process.started_s is None and process.since > since for process in self._processes.values())

    @property
    def starts_from_nothing(self) -> bool:
        """Return whether a keeper is starting, and no supervised keeper is older than `SOON_S`."""
        since = time.monotonic() - SOON_S
        return self.is_starting and all(process.since > since for process in self._processes.values())

    def overdue_to_start(self, holders: Mapping[str, Holder]) -> list[str]:
        """Return the names of the actors that did not become holders within the time limit of a start."""
        deadline = time.monotonic() - self._start_s
        return [
            name
            for name, process in self._processes.items()
            if name not in holders and process.since < deadline and not process.is_draining
        ]

    def age_s(self, actor_name: str) -> float:
        """Return the time since an actor was first supervised."""
        return time.monotonic() - self._processes[actor_name].since

    def node_id(self, actor_name: str) -> str:
        """Return the node on which an actor was started; "" if an earlier coordinator started it."""
        return self._processes[actor_name].node_id

    def keepers(self, holders: Mapping[str, Holder], suspects: set[str]) -> list[KeeperState]:
        """Describe each actor that is not draining; if it has registered, include the state of its holder."""
        return [
            KeeperState(
                actor_name=name,
                node_id=holder.node_id if (holder := holders.get(name)) else process.node_id,
                holder=holder.holder if holder else None,
                part=holder.part if holder else None,
                part_count=holder.part_count if holder else None,
                suspect=name in suspects,
                suspended=bool(holder and holder.suspended_at),
                stalled=holder is None and process.stalled,
                started_s=process.started_s or 0.0,
                held=holder.held if holder else 0,
            )
            for name, process in self._processes.items()
            if not process.is_draining
        ]

    def finished(self, keepers: Sequence[KeeperState], *, finish_s: float) -> list[str]:
        """Return the retired keepers that can be drained now: without leases, or retired `finish_s` ago.

        Call this in each iteration with all keepers to retire. If one call omits a keeper, the time `finish_s` of this
        keeper starts again with the next call.
        """
        now_s = time.monotonic()
        self._finishing = {it.actor_name: self._finishing.get(it.actor_name, now_s) for it in keepers}
        return [it.actor_name for it in keepers if not it.held or now_s - self._finishing[it.actor_name] >= finish_s]

    def retire(self, actor_names: Iterable[str]) -> None:
        """Start to drain actors; each actor is killed after its drain, or if it does not answer.

        The caller does not wait for the drains, because it must renew the leader's lease and handle dead keepers.
        """
        for actor_name in actor_names:
            process = self._processes[actor_name]
            if process.drain is None:
                drain = self._drain_and_kill(actor_name, process)
                process.drain = asyncio.create_task(drain, name=f"drain {actor_name}")

    async def retire_all(self) -> None:
        """Drain all actors concurrently, then kill them all, including actors that did not answer.

        errors:  FleetUnavailable  no answer before the timeout
        """
        self.retire(self._processes)
        await asyncio.gather(*(process.drain for process in self._processes.values() if process.drain is not None))
        self.drop(list(self._processes))
        await self.kill_dropped()  # if a kill got no answer, kill_dropped repeats it

    async def abandon(self) -> None:
        """Cancel the drains, because the coordinator ends; the keepers continue without this coordinator."""
        drains = [process.drain for process in self._processes.values() if process.drain is not None]
        for drain in drains:
            drain.cancel()
        await asyncio.gather(*drains, return_exceptions=True)

    def drop(self, actor_names: Iterable[str]) -> None:
        """Stop supervising actors that have ended or are unreachable; `kill_dropped` kills them."""
        for actor_name in actor_names:
            process = self._processes.pop(actor_name)
            process.watch.cancel()
            self._dropped.append(process.handle)

    async def kill_dropped(self) -> None:
        """Kill all dropped actors.

        errors:  FleetUnavailable  no answer before the timeout: call again
        """
        while self._dropped:
            handle = self._dropped.popleft()
            try:
                await handle.kill()
            except BaseException:
                self._dropped.append(handle)  # the next call begins with other actors
                raise

    def _watch_process(self, actor_name: str, handle: KeeperHandle, node_id: str) -> None:
        watch = asyncio.create_task(self._watch(actor_name, handle), name=f"watch {actor_name}")
        self._processes[actor_name] = KeeperProcess(handle=handle, node_id=node_id, since=time.monotonic(), watch=watch)

    async def _watch(self, actor_name: str, handle: KeeperHandle) -> None:
        why = await handle.watch()
        if actor_name in self._processes:
            self._processes[actor_name].why_gone = why
            self._changed()

    async def _drain_and_kill(self, actor_name: str, process: KeeperProcess) -> None:
        try:
            async with asyncio.timeout(self._drain_s):
                await process.handle.drain()
            self._log.info("retired", actor=actor_name)
        except Exception as error:  # noqa: BLE001 - an actor that can't drain is killed, like one that has drained
            self._log.warning("did not drain, and is killed", actor=actor_name, error=type(error).__name__)
        process.why_gone = "retired"
        try:
            self.drop([actor_name])
            await self.kill_dropped()
        except FleetUnavailable as error:  # the next iteration kills the actor, or the stop does
            self._log.warning("could not kill", actor=actor_name, error=str(error))
