"""Make the members of a fleet as a plan sees them: shards that serve, start, or are silent."""

from __future__ import annotations

from dataclasses import replace

from coordinator.plan import ActorState


def member(name: str, node: str, part: int | None = None, part_count: int | None = None) -> ActorState:
    """Make a shard actor that is ready; its holder follows from its name."""
    return ActorState(name, node, holder=sum(name.encode()), part=part, part_count=part_count)


def starting(name: str, node: str) -> ActorState:
    """Make a shard actor that has not registered yet."""
    return ActorState(name, node)


def serving(*nodes: str) -> list[ActorState]:
    """Make shards 0, 1, 2 … on these nodes."""
    return [member(f"s{number}", node, number, len(nodes)) for number, node in enumerate(nodes)]


def silent(one: ActorState, *, suspended: bool = False) -> ActorState:
    """Make a member suspect; a suspended one has no slots."""
    if suspended:
        return replace(one, suspect=True, suspended=True, part=None, part_count=None)
    return replace(one, suspect=True)


def holder_of(one: ActorState) -> int:
    assert one.holder is not None
    return one.holder
