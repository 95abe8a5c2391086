"""The contenders: Shardclock on Ray and its limit (`ours`), and the peers (`peers`); `contender` is their interface."""

from collections.abc import Iterator

from benchmarks.contenders.ours import Limit, OnRay
from benchmarks.contenders.peers import KINDS, Peer

__all__ = ["Limit", "OnRay", "Peer", "each_peer"]


def each_peer() -> Iterator[Peer]:
    """Make a contender of each peer."""
    return (Peer(kind) for kind in KINDS)
