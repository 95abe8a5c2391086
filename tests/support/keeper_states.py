"""Make the keepers of a fleet for a plan: serving, starting and silent shards."""

from __future__ import annotations

from dataclasses import replace

from shardclock_server.coordinator.takeover_plan import KeeperState


def keeper(name: str, node: str, part: int | None = None, part_count: int | None = None) -> KeeperState:
    """Make a shard actor that is ready; the number of its holder is computed from its name."""
    return KeeperState(name, node, holder=sum(name.encode()), part=part, part_count=part_count)


def starting(name: str, node: str) -> KeeperState:
    """Make a shard actor that has not registered yet."""
    return KeeperState(name, node)


def serving(*nodes: str) -> list[KeeperState]:
    return [keeper(f"s{number}", node, number, len(nodes)) for number, node in enumerate(nodes)]


def silent(one: KeeperState, *, suspended: bool = False) -> KeeperState:
    """Make a keeper silent; a suspended keeper has no slots."""
    if suspended:
        return replace(one, suspect=True, suspended=True, part=None, part_count=None)
    return replace(one, suspect=True)


def holder_of(one: KeeperState) -> int:
    assert one.holder is not None
    return one.holder
