"""Decide which silent keepers of a role are suspended, and which keepers get the slots of these keepers (pure).

The plan also contains the keepers to start and to retire. `lost_holders` decides which keepers are dead.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from operator import itemgetter


@dataclass(frozen=True, slots=True)
class KeeperState:
    """One keeper of this cluster.

    A keeper is starting until it has registered as a holder, and then works until it is retired.

    A `suspect` keeper has been silent for a short time. A `suspended` keeper is marked in the holders table, and other
    keepers have its slots. A `stalled` keeper did not register in time. `started_s` is the moment when this coordinator
    first read the keeper's holder, in seconds of the monotonic clock. `held` is the number of leases that the keeper
    reported in its last heartbeat.
    """

    actor_name: str
    node_id: str
    holder: int | None = None
    part: int | None = None
    part_count: int | None = None
    suspect: bool = False
    suspended: bool = False
    stalled: bool = False
    started_s: float = 0.0
    held: int = 0

    @property
    def registered(self) -> bool:
        """Return whether the keeper has a holder."""
        return self.holder is not None

    @property
    def ready(self) -> bool:
        """Return whether the keeper can get slots."""
        return self.registered and not self.suspect


@dataclass(frozen=True, slots=True)
class Observed:
    """The actual state: the actors of this cluster, the usable nodes, and the nodes in quarantine.

    `quarantined` is sorted by the ends of the quarantines. `foreign_holders` are holders with slots that belong to the
    cluster that led before.
    """

    keepers: Sequence[KeeperState]
    nodes: Sequence[str]
    quarantined: Sequence[str] = ()
    foreign_holders: Sequence[int] = ()


@dataclass(frozen=True, slots=True)
class Plan:
    """The steps of one iteration, in this order: assign, spawn, retire.

    `assign` maps each holder with a changed assignment to its part of the slots, or to None for no slots. `assign`
    includes the holders to `suspend` or `resume`.
    """

    assign: dict[int, int | None] = field(default_factory=dict)
    part_count: int = 0
    suspend: Sequence[int] = ()
    resume: Sequence[int] = ()
    retire: Sequence[KeeperState] = ()
    spawn: Sequence[str] = ()


def plan(wanted: int, observed: Observed) -> Plan:
    """Decide the steps that bring the fleet to `wanted` keepers, spread over its nodes.

    All slots are divided among the ready keepers. After the death of a keeper, the ready keepers get its slots; a new
    keeper gets slots when it is ready. A keeper is moved if its node will leave the cluster, or if its node has at
    least two more keepers than another node. To move a keeper, the coordinator starts a replacement, and retires the
    old keeper when the replacement is ready. If an actor starts slowly, the coordinator starts a second actor on a
    better node, uses the actor that registers first, and retires the other actor.

    A suspect keeper is suspended: the other keepers get its slots and may claim its leased rows. A suspect keeper is
    neither retired nor replaced, because its silence may be a short pause. If all keepers are suspect, the assignment
    does not change, and one additional actor is started.

    shape:   `spawn` has the node for each new actor; empty if no actor is needed, or if no node is usable
    """
    staying = [keeper for keeper in observed.keepers if keeper.node_id in observed.nodes]
    ready = sorted((keeper for keeper in staying if keeper.ready), key=_seniority)
    leaving = [keeper for keeper in observed.keepers if keeper.node_id not in observed.nodes and keeper.ready]
    suspects = [keeper for keeper in observed.keepers if keeper.registered and keeper.suspect]

    serving = _balanced(ready, wanted)
    # Keepers on leaving nodes keep their slots until replacements are ready, because fewer keepers fire more slowly.
    serving += sorted(leaving, key=_seniority)[: wanted - len(serving)]
    kept = {keeper.actor_name for keeper in serving}
    retire = tuple(keeper for keeper in observed.keepers if keeper.ready and keeper.actor_name not in kept)

    targets = _targets(observed)
    expected = [keeper for keeper in staying if not (keeper.stalled and _are_trusted(targets, observed))]
    spawn = _spawns(wanted, expected, targets)
    if targets and suspects and not (serving or any(not keeper.registered for keeper in expected)):
        spawn = spawn or [_emptiest(_load(expected, targets))]
    assign, suspend = _assignment(serving, retire), tuple[int, ...]()
    if serving:
        suspend = tuple(keeper.holder for keeper in suspects if keeper.holder and not keeper.suspended)
        # A keeper without slots makes no new claims, and fires its leased timers.
        assign |= dict.fromkeys((*suspend, *observed.foreign_holders))
    return Plan(
        assign=assign,
        part_count=len(serving),
        suspend=suspend,
        resume=tuple(keeper.holder for keeper in serving if keeper.holder and keeper.suspended),
        retire=retire,
        spawn=tuple(spawn),
    )


def plan_to_go(observed: Observed) -> Plan:
    """Decide which keepers to retire while another cluster leads, if this cluster has keepers only while it leads.

    A keeper is retired when the leading cluster has taken its slots. Until then, the keeper continues to fire timers.
    """
    return Plan(retire=tuple(keeper for keeper in observed.keepers if keeper.ready and keeper.part is None))


def _balanced(ready: Sequence[KeeperState], wanted: int) -> list[KeeperState]:
    """Choose the keepers that continue to serve: spread evenly over the nodes, preferably keepers with slots.

    The order is: one keeper of each node, then a second keeper of each node, and so on.
    """
    load = Counter[str]()
    turns: list[tuple[int, KeeperState]] = []
    for keeper in ready:
        turns.append((load[keeper.node_id], keeper))
        load[keeper.node_id] += 1
    return [keeper for _, keeper in sorted(turns, key=itemgetter(0))][:wanted]


def _targets(observed: Observed) -> Sequence[str]:
    """Choose the nodes for new actors.

    The result is the first of these lists that is not empty: the nodes that are not in doubt, the nodes outside
    quarantine, and the node with the earliest end of its quarantine.
    """
    doubted = _doubted(observed)
    return (
        [node for node in observed.nodes if node not in doubted]
        or [node for node in observed.nodes if node not in observed.quarantined]
        or [node for node in observed.quarantined if node in observed.nodes][:1]
    )


def _are_trusted(targets: Sequence[str], observed: Observed) -> bool:
    """Return whether there is at least one target node, and no target node is in doubt."""
    return bool(targets) and _doubted(observed).isdisjoint(targets)


def _doubted(observed: Observed) -> set[str]:
    """Return the nodes in doubt: nodes in quarantine, and nodes with a keeper that is silent or slow to start."""
    return {*observed.quarantined, *(keeper.node_id for keeper in observed.keepers if keeper.suspect or keeper.stalled)}


def _spawns(wanted: int, expected: Sequence[KeeperState], nodes: Sequence[str]) -> list[str]:
    """Choose a node for each missing actor.

    If no actor is missing, choose at most one node, to move a keeper from a node with too many keepers.
    """
    if not nodes:
        return []
    load = _load(expected, nodes)
    spawns: list[str] = []
    for _ in range(wanted - len(expected)):
        spawns.append(_emptiest(load))
        load[spawns[-1]] += 1
    if not spawns and len(expected) == wanted and max(load.values()) - min(load.values()) > 1:
        spawns.append(_emptiest(load))
    return spawns


def _load(expected: Sequence[KeeperState], nodes: Sequence[str]) -> Counter[str]:
    load = Counter(dict.fromkeys(nodes, 0))
    load.update(keeper.node_id for keeper in expected if keeper.node_id in nodes)
    return load


def _emptiest(load: Counter[str]) -> str:
    return min(load, key=lambda node: (load[node], node))


def _seniority(keeper: KeeperState) -> tuple[bool, int, str]:
    return keeper.part is None, keeper.part or 0, keeper.actor_name


def _assignment(serving: Sequence[KeeperState], retire: Sequence[KeeperState]) -> dict[int, int | None]:
    """Assign parts of the slots to the serving keepers, with as few changes as possible; return the changes."""
    count = len(serving)
    numbers: dict[int, int] = {}
    kept = {m.part: m for m in reversed(serving) if m.part is not None and m.part < count}
    free = iter(sorted(set(range(count)) - set(kept)))
    for keeper in serving:
        assert keeper.holder is not None
        keeps = keeper.part is not None and kept.get(keeper.part) is keeper
        numbers[keeper.holder] = keeper.part if keeps and keeper.part is not None else next(free)
    changed = {
        m.holder: numbers[m.holder]
        for m in serving
        if m.holder is not None and (m.suspended or (m.part, m.part_count) != (numbers[m.holder], count))
    }
    dropped = {m.holder: None for m in retire if m.holder is not None and m.part is not None}
    return {**changed, **dropped}
