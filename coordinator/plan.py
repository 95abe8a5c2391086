"""What to do about the difference between what is wanted and what is there: a pure function."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Member:
    """One shard actor of ours: starting while it has no holder, then serving until it is retired.

    One that is suspect has been silent for a moment; the table says of it whether it is suspended.
    """

    actor_name: str
    node_id: str
    holder: int | None = None
    shard: int | None = None
    shard_count: int | None = None
    suspect: bool = False
    suspended: bool = False

    @property
    def registered(self) -> bool:
        """Say whether it has a holder."""
        return self.holder is not None

    @property
    def ready(self) -> bool:
        """Say whether it can be given a shard."""
        return self.registered and not self.suspect


@dataclass(frozen=True, slots=True)
class Fleet:
    """What is there: our actors, the nodes they may stay on and those of them that should get no new ones.

    Guests are holders of other clusters that still keep slots, from when their cluster led.
    """

    members: Sequence[Member]
    nodes: Sequence[str]
    suspects: frozenset[str] = frozenset()
    guests: Sequence[int] = ()


@dataclass(frozen=True, slots=True)
class Plan:
    """What to do, in this order: assign, then spawn, then retire.

    Those to `suspend` or `resume` are among those that `assign` names.
    """

    assign: dict[int, int | None] = field(default_factory=dict)
    shard_count: int = 0
    suspend: Sequence[int] = ()
    resume: Sequence[int] = ()
    retire: Sequence[Member] = ()
    spawn: Sequence[str] = ()


def plan(wanted: int, fleet: Fleet) -> Plan:
    """Decide what brings the fleet to `wanted` shards, spread over its nodes.

    The shards that are ready share all slots among them, so a death leaves no slot without a shard while its
    replacement starts, and new shards take their part the moment they are there. A member on a node that is leaving,
    or on one with two more than another, is replaced first and retired when its replacement is ready.

    A member that is suspect is suspended: the others share its slots and may take what it claims, but it is neither
    retired nor replaced, for it may only have paused. Where all are suspect there is nobody to share with: the
    assignment stays as it is, and one more is started.

    shape:   `spawn` names a node for each new actor; empty where nothing can be done
    """
    staying = [member for member in fleet.members if member.node_id in fleet.nodes]
    ready = sorted((member for member in staying if member.ready), key=_seniority)
    leaving = [member for member in fleet.members if member.node_id not in fleet.nodes and member.ready]
    suspects = [member for member in fleet.members if member.registered and member.suspect]

    serving = _balanced(ready, wanted, fleet.nodes)
    # Those that leave serve on until others have started: fewer hands would only be slower.
    serving += sorted(leaving, key=_seniority)[: wanted - len(serving)]
    retire = tuple(member for member in fleet.members if member.ready and member not in serving)

    spawn = _spawns(wanted, staying, _targets(fleet))
    if fleet.nodes and suspects and len(suspects) == len(fleet.members):
        spawn = spawn or [_emptiest(_load(staying, _targets(fleet)))]
    assign, suspend = _assignment(serving, retire), tuple[int, ...]()
    if serving:
        suspend = tuple(member.holder for member in suspects if member.holder and not member.suspended)
        assign |= dict.fromkeys((*suspend, *fleet.guests))  # guests fire what they lease, and claim no more
    return Plan(
        assign=assign,
        shard_count=len(serving),
        suspend=suspend,
        resume=tuple(member.holder for member in serving if member.holder and member.suspended),
        retire=retire,
        spawn=tuple(spawn),
    )


def _balanced(ready: Sequence[Member], wanted: int, nodes: Sequence[str]) -> list[Member]:
    """Choose whom to keep: as even over the nodes as can be, the long-serving first."""
    serving: list[Member] = []
    load = Counter(dict.fromkeys(nodes, 0))
    waiting = list(ready)
    while waiting and len(serving) < wanted:
        chosen = min(waiting, key=lambda member: load[member.node_id])
        waiting.remove(chosen)
        serving.append(chosen)
        load[chosen.node_id] += 1
    return serving


def _targets(fleet: Fleet) -> Sequence[str]:
    """Choose the nodes that may get new actors: rather none where one could not be reached, or is silent."""
    doubtful = fleet.suspects | {member.node_id for member in fleet.members if member.suspect}
    return (
        [node for node in fleet.nodes if node not in doubtful]
        or [node for node in fleet.nodes if node not in fleet.suspects]
        or fleet.nodes
    )


def _spawns(wanted: int, staying: Sequence[Member], nodes: Sequence[str]) -> list[str]:
    """Name the nodes for new actors: those that are missing, and one ahead of each that stands on a crowded node."""
    if not nodes:
        return []
    load = _load(staying, nodes)
    spawns: list[str] = []
    for _ in range(wanted - len(staying)):
        spawns.append(_emptiest(load))
        load[spawns[-1]] += 1
    if not spawns and len(staying) == wanted and max(load.values()) - min(load.values()) > 1:
        spawns.append(_emptiest(load))
    return spawns


def _load(staying: Sequence[Member], nodes: Sequence[str]) -> Counter[str]:
    load = Counter(dict.fromkeys(nodes, 0))
    load.update(member.node_id for member in staying if member.node_id in nodes)
    return load


def _emptiest(load: Counter[str]) -> str:
    return min(load, key=lambda node: (load[node], node))


def _seniority(member: Member) -> tuple[bool, int, str]:
    return member.shard is None, member.shard or 0, member.actor_name


def _assignment(serving: Sequence[Member], retire: Sequence[Member]) -> dict[int, int | None]:
    """Number the serving, each keeping its number where it can; only what changes is named."""
    count = len(serving)
    numbers: dict[int, int] = {}
    kept = {m.shard: m for m in reversed(serving) if m.shard is not None and m.shard < count}
    free = iter(sorted(set(range(count)) - set(kept)))
    for member in serving:
        assert member.holder is not None
        keeps = member.shard is not None and kept.get(member.shard) is member
        numbers[member.holder] = member.shard if keeps and member.shard is not None else next(free)
    changed = {
        m.holder: numbers[m.holder]
        for m in serving
        if m.holder is not None and (m.suspended or (m.shard, m.shard_count) != (numbers[m.holder], count))
    }
    dropped = {m.holder: None for m in retire if m.holder is not None and m.shard is not None}
    return {**changed, **dropped}
