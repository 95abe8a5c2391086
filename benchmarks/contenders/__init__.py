"""The contenders: Shardclock on Ray and its limits (`ours`, `handlers`), and the peers; `contender` is their interface.

A peer is one of the `kinds`, whose workers `peers` runs, if it is `installed`. Who calls handlers or endpoints is
`recorded`: whoever is called notes each call.
"""

from collections.abc import Iterator

from benchmarks.contenders.contender import Contender
from benchmarks.contenders.handlers import HANDLERS, SqlAlone, WithHandler
from benchmarks.contenders.kinds import KINDS, MORE_KINDS
from benchmarks.contenders.ours import Limit, OnRay
from benchmarks.contenders.peers import Peer

__all__ = ["LIMITS", "Limit", "OnRay", "Peer", "SqlAlone", "WithHandler", "each_peer", "each_that_calls"]

LIMITS = frozenset({Limit.name, SqlAlone.name})  # never the best: nobody can use them


def each_peer() -> Iterator[Peer]:
    """Make a contender of each peer."""
    return (Peer(kind) for kind in KINDS)


def each_that_calls() -> Iterator[Contender]:
    """Make a contender of each that calls handlers, and of their limit."""
    yield from (WithHandler(target) for target in HANDLERS)
    yield SqlAlone()
    yield from (Peer(kind) for kind in (*KINDS, *MORE_KINDS))
