"""Who takes part: Shardclock, its limit, and its peers."""

from collections.abc import Iterator

from benchmarks.contenders.ours import Limit, OnRay
from benchmarks.contenders.theirs import KINDS, Peer

__all__ = ["Limit", "OnRay", "Peer", "peers"]


def peers() -> Iterator[Peer]:
    """Make a contender of each peer."""
    return (Peer(kind) for kind in KINDS)
