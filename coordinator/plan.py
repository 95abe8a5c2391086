"""What to do about the difference between the desired and the actual keepers of a role: a pure function.

Here it is decided which are suspended, and who has their slots; `takeover` decides which are dead.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class ActorState:
    """One keeper of ours: starting while it has no holder, then serving until it is retired.

    A `suspect` member has been silent for a moment. A `suspended` one is marked so in the holders table, and the others
    have its slots. A `stalled` member should have started by now, and may still start. `started_s` is when its holder
    was first seen, in seconds of the monotonic clock. `held` is how much it had in hand at its last sign of life.
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
        """Say whether it has a holder."""
        return self.holder is not None

    @property
    def ready(self) -> bool:
        """Say whether it can be given slots."""
        return self.registered and not self.suspect


@dataclass(frozen=True, slots=True)
class Observed:
    """The actual state: our actors, the nodes they may stay on, and which of the nodes should get no new actors.

    `quarantined` is in order: the node whose quarantine ends first comes first. `foreign_holders` are holders of other
    clusters that still keep slots from the time when their cluster led.
    """

    members: Sequence[ActorState]
    nodes: Sequence[str]
    quarantined: Sequence[str] = ()
    foreign_holders: Sequence[int] = ()


@dataclass(frozen=True, slots=True)
class Plan:
    """What to do, in this order: assign, then spawn, then retire.

    `assign` gives each holder its part of the slots, None for none. The holders to `suspend` or `resume` are among
    them.
    """

    assign: dict[int, int | None] = field(default_factory=dict)
    part_count: int = 0
    suspend: Sequence[int] = ()
    resume: Sequence[int] = ()
    retire: Sequence[ActorState] = ()
    spawn: Sequence[str] = ()


def plan(wanted: int, fleet: Observed) -> Plan:
    """Decide what brings the fleet to `wanted` keepers, spread over its nodes.

    The ready keepers share all slots. So a death leaves no slot without a keeper while the replacement starts, and a
    new keeper takes its part as soon as it is ready. A member is moved if its node is leaving, or if its node has at
    least two more members than another: its replacement starts first, and the member is retired when that is ready.

    If an actor is slow to start, another one is started on a better node, if there is one. Whichever of the two comes
    up first serves, and the surplus one is retired.

    A suspect member is suspended: the others share its slots and may take what it has claimed. It is neither retired
    nor replaced, because it may only have paused. If all members are suspect, there is none to share with: the
    assignment stays as it is, and one more actor is started.

    shape:   `spawn` names a node for each new actor; empty if none is needed or no node can take one
    """
    staying = [member for member in fleet.members if member.node_id in fleet.nodes]
    ready = sorted((member for member in staying if member.ready), key=_seniority)
    leaving = [member for member in fleet.members if member.node_id not in fleet.nodes and member.ready]
    suspects = [member for member in fleet.members if member.registered and member.suspect]

    serving = _balanced(ready, wanted, fleet.nodes)
    # Members on leaving nodes serve until their replacements are ready: fewer keepers would only be slower.
    serving += sorted(leaving, key=_seniority)[: wanted - len(serving)]
    retire = tuple(member for member in fleet.members if member.ready and member not in serving)

    targets = _targets(fleet)
    expected = [member for member in staying if not (member.stalled and _are_trusted(targets, fleet))]
    spawn = _spawns(wanted, expected, targets)
    if targets and suspects and not (serving or any(not member.registered for member in expected)):
        spawn = spawn or [_emptiest(_load(expected, targets))]
    assign, suspend = _assignment(serving, retire), tuple[int, ...]()
    if serving:
        suspend = tuple(member.holder for member in suspects if member.holder and not member.suspended)
        # A keeper without slots claims nothing more. It fires what it has leased.
        assign |= dict.fromkeys((*suspend, *fleet.foreign_holders))
    return Plan(
        assign=assign,
        part_count=len(serving),
        suspend=suspend,
        resume=tuple(member.holder for member in serving if member.holder and member.suspended),
        retire=retire,
        spawn=tuple(spawn),
    )


def _balanced(ready: Sequence[ActorState], wanted: int, nodes: Sequence[str]) -> list[ActorState]:
    """Choose the members to keep: spread them evenly over the nodes, and prefer members that have slots."""
    serving: list[ActorState] = []
    load = Counter(dict.fromkeys(nodes, 0))
    waiting = list(ready)
    while waiting and len(serving) < wanted:
        chosen = min(waiting, key=lambda member: load[member.node_id])
        waiting.remove(chosen)
        serving.append(chosen)
        load[chosen.node_id] += 1
    return serving


def _targets(fleet: Observed) -> Sequence[str]:
    """Choose the nodes for new actors: those that nobody doubts; if there are none, those that are not in quarantine;
    if there are none, the node whose quarantine ends first.
    """
    doubted = _doubted(fleet)
    return (
        [node for node in fleet.nodes if node not in doubted]
        or [node for node in fleet.nodes if node not in fleet.quarantined]
        or [node for node in fleet.quarantined if node in fleet.nodes][:1]
    )


def _are_trusted(targets: Sequence[str], fleet: Observed) -> bool:
    """Say whether there are targets, and none of them is in doubt."""
    return bool(targets) and _doubted(fleet).isdisjoint(targets)


def _doubted(fleet: Observed) -> set[str]:
    """Name the nodes in doubt: in quarantine, or with a member that is silent or slow to start."""
    return {*fleet.quarantined, *(member.node_id for member in fleet.members if member.suspect or member.stalled)}


def _spawns(wanted: int, expected: Sequence[ActorState], nodes: Sequence[str]) -> list[str]:
    """Name a node for each missing actor; if none is missing, a node for one actor that will relieve a crowded node."""
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


def _load(expected: Sequence[ActorState], nodes: Sequence[str]) -> Counter[str]:
    load = Counter(dict.fromkeys(nodes, 0))
    load.update(member.node_id for member in expected if member.node_id in nodes)
    return load


def _emptiest(load: Counter[str]) -> str:
    return min(load, key=lambda node: (load[node], node))


def _seniority(member: ActorState) -> tuple[bool, int, str]:
    return member.part is None, member.part or 0, member.actor_name


def _assignment(serving: Sequence[ActorState], retire: Sequence[ActorState]) -> dict[int, int | None]:
    """Number the serving members, each with its old number where possible; return only what changes."""
    count = len(serving)
    numbers: dict[int, int] = {}
    kept = {m.part: m for m in reversed(serving) if m.part is not None and m.part < count}
    free = iter(sorted(set(range(count)) - set(kept)))
    for member in serving:
        assert member.holder is not None
        keeps = member.part is not None and kept.get(member.part) is member
        numbers[member.holder] = member.part if keeps and member.part is not None else next(free)
    changed = {
        m.holder: numbers[m.holder]
        for m in serving
        if m.holder is not None and (m.suspended or (m.part, m.part_count) != (numbers[m.holder], count))
    }
    dropped = {m.holder: None for m in retire if m.holder is not None and m.part is not None}
    return {**changed, **dropped}
