"""The contenders: Shardclock on Ray, its limits (`ours`, `handlers`), and the peers; `contender` is the interface.

A peer is one of the `kinds`; `peers` runs its workers, and `installed` finds its packages. `recorded` is for contenders
that call handlers or endpoints; each handler or receiver records its calls.
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
)  # the page never marks an upper limit as the best, because it is not a usable system


def each_peer() -> Iterator[Peer]:
    """Create one contender for each peer."""
    return (Peer(kind) for kind in KINDS)


def each_that_calls() -> Iterator[Contender]:
    """Create the contenders that call handlers, and their upper limit."""
    yield from (WithHandler(target) for target in HANDLERS)
    yield SqlAlone()
    yield from (Peer(kind) for kind in (*KINDS, *MORE_KINDS))
