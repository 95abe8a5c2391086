"""The contenders: Shardclock on Ray and its limits (`ours`, `handlers`), and the peers; `contender` is their interface.

A peer is one of the `kinds`; `peers` runs its workers, and `installed` finds its packages. A contender that calls
handlers or endpoints is `recorded`: the called side notes each call.
"""

from collections.abc import Iterator

from benchmarks.contenders.contender import Contender
from benchmarks.contenders.handlers import HANDLERS, SqlAlone, WithHandler
from benchmarks.contenders.kinds import KINDS, MORE_KINDS
from benchmarks.contenders.ours import Limit, OnRay
from benchmarks.contenders.peers import Peer

__all__ = ["LIMITS", "Limit", "OnRay", "Peer", "SqlAlone", "WithHandler", "each_peer", "each_that_calls"]

LIMITS = frozenset(
    {Limit.name, SqlAlone.name}
)  # the page never marks a limit as the best, because users can't use limits


def each_peer() -> Iterator[Peer]:
    """Make a contender of each peer."""
    return (Peer(kind) for kind in KINDS)


def each_that_calls() -> Iterator[Contender]:
    """Make the contenders that call handlers, and their limit."""
    yield from (WithHandler(target) for target in HANDLERS)
    yield SqlAlone()
    yield from (Peer(kind) for kind in (*KINDS, *MORE_KINDS))
