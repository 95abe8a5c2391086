"""Make the members of a fleet as a plan sees them: shards that serve, start, or are silent."""

from __future__ import annotations

from dataclasses import replace

from coordinator.plan import Member


def member(name: str, node: str, shard: int | None = None, shard_count: int | None = None) -> Member:
    """Make a shard actor that is ready; its holder follows from its name."""
    return Member(name, node, holder=sum(name.encode()), shard=shard, shard_count=shard_count)


def starting(name: str, node: str) -> Member:
    """Make a shard actor that has not registered yet."""
    return Member(name, node)


def serving(*nodes: str) -> list[Member]:
    """Make shards 0, 1, 2 … on these nodes."""
    return [member(f"s{number}", node, number, len(nodes)) for number, node in enumerate(nodes)]


def silent(one: Member, *, suspended: bool = False) -> Member:
    """Make a member suspect; a suspended one has no slots."""
    if suspended:
        return replace(one, suspect=True, suspended=True, shard=None, shard_count=None)
    return replace(one, suspect=True)


def holder_of(one: Member) -> int:
    assert one.holder is not None
    return one.holder
