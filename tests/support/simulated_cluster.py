"""Run the coordinator's crew of shards on a clock of the test's own, over hosts that fail, without Postgres.

The test runs the real `Crew` and its decisions. `Holders` answers its statements from memory; `Host` and
`SimulatedShard` stand for machines and processes.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any, cast
from unittest import mock

import structlog

from shardclock_server.coordinator import crew, holders_seen, keeper_processes
from shardclock_server.coordinator.crew import Crew
from shardclock_server.coordinator.fleet import RAY, KeeperHandle
from shardclock_server.coordinator.holders_seen import HoldersSeen
from shardclock_server.coordinator.lost_holders import DIED
from shardclock_server.coordinator.reconciler import STARTING_TURN_S
from shardclock_server.coordinator.settings import CoordinatorSettings
from shardclock_server.sql.cluster.holders import SHARD
from shardclock_server.sql.cluster.leadership import Leadership
from shardclock_server.sql.session import Session

SLOTS = 840
CLUSTER = "simulated"
EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
LEADS = Leadership(leads=True, term=1, leader=1, cluster_id=CLUSTER, wanted={})


@dataclass(eq=False)
class Host:
    """One machine; from `reachable_from_s` on, its network works again."""

    name: str
    reachable_from_s: float = 0.0


@dataclass(eq=False)
class SimulatedShard:
    """One shard's process, and the handle by which the coordinator knows it."""

    name: str
    holder: int
    host: Host
    registers_at_s: float
    frozen_until_s: float = 0.0
    lives: bool = True
    has_registered: bool = False
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    leave: Callable[[], None] = lambda: None

    async def watch(self) -> str:
        await self.ended.wait()
        return DIED

    async def drain(self) -> None:
        self.leave()

    async def kill(self) -> None:
        self.lives = False
        self.ended.set()

    def is_heard(self, now_s: float) -> bool:
        """Return whether the process works and reaches Postgres."""
        return self.lives and now_s >= max(self.frozen_until_s, self.host.reachable_from_s)


class Holders:
    """Answer a crew's statements about holders from memory, like the statements in `sql/cluster`."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self.table: dict[int, dict[str, Any]] = {}
        self.changes = 0
        self._clock = clock

    async def rows(self, statement_name: str, /, **values: Any) -> Sequence[Any]:
        return cast("Sequence[Any]", getattr(self, f"_{statement_name}")(**values))

    def register(self, shard: SimulatedShard) -> None:
        self.changes += 1
        self.table[shard.holder] = {
            "holder": shard.holder, "role": SHARD, "cluster_id": CLUSTER, "actor_name": shard.name,
            "node_id": shard.host.name, "host": shard.host.name, "pid": 1, "part": None, "part_count": None, "held": 0,
            "started_at": self.moment(shard.registers_at_s), "seen_at": self.moment(shard.registers_at_s),
            "suspended_at": None, "silent_s": 0.0,
        }  # fmt: skip

    def moment(self, now_s: float) -> datetime:
        return EPOCH + timedelta(seconds=now_s)

    def _list_holders(self, role: str | None) -> Sequence[Mapping[str, Any]]:
        assert role is None
        return list(self.table.values())

    def _end_holders(self, holders: Sequence[int], **_: object) -> Sequence[tuple[int, int, float]]:
        self.changes += 1
        there = [holder for holder in holders if self.table.pop(holder, None)]
        return [(holder, 0, 0.0) for holder in there]

    def _assign(
        self,
        holders: Sequence[int],
        parts: Sequence[int | None],
        suspended: Sequence[bool],
        part_count: int,
        **_: object,
    ) -> Sequence[int]:
        self.changes += 1
        for holder, part, is_suspended in zip(holders, parts, suspended, strict=True):
            self.table[holder] |= {
                "part": part,
                "part_count": None if part is None else part_count,
                "suspended_at": self.moment(self._clock()) if is_suspended else None,
            }
        return holders

    def _cut_off(self, holders: Sequence[int]) -> Sequence[int]:
        return holders

    def _notify_of_due_timers(self, **_: object) -> Sequence[Any]:
        return []


class SimulatedCluster:
    """Hosts with shards, the crew of their coordinator, and the clock of both."""

    role, kind = SHARD, RAY

    def __init__(self, hosts: int, *, wanted: int, seed: int) -> None:
        self.now_s = 1_000.0
        self.wanted = wanted
        self.hosts = [Host(f"host-{number:03}") for number in range(hosts)]
        self.shards: dict[int, SimulatedShard] = {}
        self.holders = Holders(lambda: self.now_s)
        self.spawned = 0
        self.moves: list[int] = []  # for each turn, the number of slots with a new owner
        self.unowned: list[int] = []  # for each turn, the number of slots without an owner at its end
        self.unserved_s = 0.0  # the longest time in which a slot had no working owner
        self.random = random.Random(seed)
        self._by_name = {host.name: host for host in self.hosts}
        self._owners: dict[int, int] = {}
        self._seen = 0
        self._unserved_since_s = dict.fromkeys(range(SLOTS), self.now_s)
        self._crew = Crew(
            self,
            CoordinatorSettings(),
            cast("Session", self.holders),
            cluster_id=CLUSTER,
            changed=lambda: None,
            log=structlog.get_logger(),
        )

    # The fleet.

    async def nodes(self) -> Sequence[str]:
        """List all hosts, also lost hosts: Ray needs a minute to notice a lost host."""
        return [host.name for host in self.hosts]

    async def found(self) -> Mapping[str, KeeperHandle]:
        return {}

    async def ask_for_nodes(self, shards: int) -> None:
        del shards

    async def spawn(self, node_id: str) -> tuple[str, KeeperHandle]:
        """Start a shard: most shards start in a second or two, one in ten takes up to 12 s."""
        self.spawned += 1
        slow = self.random.random() < 0.1
        takes_s = self.random.uniform(3.0, 12.0) if slow else self.random.uniform(0.5, 2.5)
        shard = SimulatedShard(f"shard-{self.spawned:04}", self.spawned, self._by_name[node_id], self.now_s + takes_s)
        shard.leave = lambda: self._leave(shard)
        self.shards[shard.holder] = shard
        return shard.name, shard

    def _leave(self, shard: SimulatedShard) -> None:
        self.holders.table.pop(shard.holder, None)
        self.holders.changes += 1

    # Time.

    async def run(self, seconds: float) -> None:
        """Advance the time, one turn of the coordinator after the other."""
        until_s = self.now_s + seconds
        while self.now_s < until_s:
            await self._turn()

    def begin(self) -> None:
        """Forget the figures of the turns so far."""
        self.moves, self.unowned, self.unserved_s = [], [], 0.0

    async def settle(self, within_s: float) -> float:
        """Run until the wanted number of shards serves, spread evenly; return the seconds of this run."""
        began_s = self.now_s
        while not self.is_whole:
            assert self.now_s < began_s + within_s, f"{len(self.serving)} of {self.wanted} serve after {within_s:.0f} s"
            await self._turn()
        return self.now_s - began_s

    async def _turn(self) -> None:
        self._hear()
        await asyncio.sleep(0)  # now the watchers of dead processes report the deaths
        await self._crew.turn(LEADS, self.wanted, await HoldersSeen.read(cast("Session", self.holders)))
        self._learn_owners()
        pause_s = STARTING_TURN_S if self._crew.is_starting else CoordinatorSettings().reconcile_s
        self.now_s += pause_s

    def _hear(self) -> None:
        """Write the heartbeats, and register the started shards."""
        seen_at = self.holders.moment(self.now_s)
        for shard in self.shards.values():
            if shard.is_heard(self.now_s) and shard.registers_at_s <= self.now_s:
                if not shard.has_registered:
                    shard.has_registered = True
                    self.holders.register(shard)
                elif (row := self.holders.table.get(shard.holder)) is not None:
                    row["seen_at"] = seen_at

    # Faults. Each fault happens at a random moment since the last turn, just after a heartbeat.

    def crash(self, shard: SimulatedShard) -> None:
        """End a process; the coordinator gets a notification, and takes its next turn immediately."""
        shard.lives = False
        shard.ended.set()
        self._fail([shard], self.now_s)

    def freeze(self, shard: SimulatedShard, seconds: float) -> None:
        shard.frozen_until_s = self.now_s + seconds
        self._fail([shard], self._moment_s())

    def cut(self, hosts: Sequence[Host], seconds: float) -> list[SimulatedShard]:
        """Cut hosts off from the network for some time; return the serving shards on these hosts."""
        lost = [shard for shard in self.serving if shard.host in hosts]
        for host in hosts:
            host.reachable_from_s = self.now_s + seconds
        self._fail(lost, self._moment_s())
        return lost

    def _moment_s(self) -> float:
        return self.now_s - self.random.uniform(0, CoordinatorSettings().reconcile_s)

    def _fail(self, shards: Sequence[SimulatedShard], at_s: float) -> None:
        for shard in shards:
            self.holders.table[shard.holder]["seen_at"] = self.holders.moment(at_s)
        lost = {shard.holder for shard in shards}
        self._unserved_since_s |= {slot: at_s for slot, holder in self._owners.items() if holder in lost}

    # The table of holders.

    @property
    def serving(self) -> list[SimulatedShard]:
        rows = sorted(
            (row for row in self.holders.table.values() if row["part"] is not None), key=lambda it: it["part"]
        )
        return [self.shards[row["holder"]] for row in rows]

    @property
    def is_whole(self) -> bool:
        """Return whether the wanted number of shards serves, evenly on all hosts, without other shards."""
        serving = self.serving
        load = Counter({host.name: 0 for host in self.hosts})
        load.update(shard.host.name for shard in serving)
        even = max(load.values()) - min(load.values()) <= 1
        starting = any(shard.lives and not shard.has_registered for shard in self.shards.values())
        return even and not starting and len(serving) == len(self.holders.table) == self.wanted

    def owners(self) -> dict[int, int]:
        """Map each slot to its holder, without slots that have no holder; fail if a slot has two holders."""
        owners: dict[int, int] = {}
        for row in self.holders.table.values():
            if row["part"] is not None:
                assert row["suspended_at"] is None, "a suspended holder has slots"
                for slot in range(row["part"], SLOTS, row["part_count"]):
                    assert slot not in owners, f"slot {slot} has two owners"
                    owners[slot] = row["holder"]
        return owners

    def _learn_owners(self) -> None:
        owners = self._owners if self.holders.changes == self._seen else self.owners()
        self._seen = self.holders.changes
        is_same = owners is self._owners
        self.moves.append(0 if is_same else sum(self._owners.get(slot) != owners.get(slot) for slot in range(SLOTS)))
        self.unowned.append(SLOTS - len(owners))
        self._owners = owners
        silent = {holder for holder in set(owners.values()) if not self.shards[holder].is_heard(self.now_s)}
        if len(owners) == SLOTS and not silent and not self._unserved_since_s:
            return
        for slot in range(SLOTS):
            if owners.get(slot) is None or owners[slot] in silent:
                self._unserved_since_s.setdefault(slot, self.now_s)
            elif slot in self._unserved_since_s:
                self.unserved_s = max(self.unserved_s, self.now_s - self._unserved_since_s.pop(slot))


@contextmanager
def simulated(hosts: int, *, wanted: int, seed: int) -> Iterator[SimulatedCluster]:
    """Make a simulated cluster; the coordinator's code reads the time from the cluster's clock."""
    cluster = SimulatedCluster(hosts, wanted=wanted, seed=seed)
    clock = SimpleNamespace(monotonic=lambda: cluster.now_s)
    with ExitStack() as patched:
        for module in (crew, holders_seen, keeper_processes):
            patched.enter_context(mock.patch.object(module, "time", clock))
        yield cluster
