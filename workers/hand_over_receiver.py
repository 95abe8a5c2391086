"""Grant capacity to the shards of this machine, and receive deliveries from these shards.

A place is the permission to hand over one delivery.

A new firing must not overtake a waiting delivery. So shards get no places for a target while due deliveries of the
target are unclaimed. The worker's claims don't use granted places, so claims and hand-overs together never exceed the
capacity of a target.
"""

import asyncio
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

from shardclock_server.keepers.hand_over_socket import (
    Begins,
    GrantLimits,
    HandedOver,
    HandOverSocket,
    Kept,
    Taken,
    listen,
)
from shardclock_server.keepers.keeper import KeeperLoop, KeeperPart
from shardclock_server.keepers.places import GrantedPlaces
from shardclock_server.keepers.unconfirmed import StreamNumbers
from shardclock_server.sql.deliveries.claim import ClaimedDelivery
from shardclock_server.workers.deliveries import Deliveries

IDLE_S = 1.0  # The pause of the loop while there is no handler or no shard; a new connection ends the pause.
# The pause of the loop with and without leased deliveries; without leased deliveries the free capacity changes rarely.
# After a hand-over, the places of its targets are granted again immediately.
GRANT_S, UNLEASED_S = 0.05, 0.25
# The lease of a handed-over delivery, as a fraction of a claim's lease. The lease is short, so that a lost delivery is
# soon claimed again.
LEASE_SHARE = 0.5


@dataclass
class NearShard:
    """The places that a connection grants to a shard, and the number of the shard's last confirmed message."""

    places: GrantedPlaces = field(default_factory=GrantedPlaces)
    stream: int = 0
    confirmed: int = 0


class HandOverReceiver(KeeperPart):
    """Accept connections from this machine's shards."""

    def __init__(self, holder: int, deliveries: Deliveries, *, lease_s: float) -> None:
        self._holder, self._deliveries, self._lease_s = holder, deliveries, lease_s * LEASE_SHARE
        self._grant_soon = asyncio.Event()
        self._server: asyncio.Server | None = None
        self._shards: dict[HandOverSocket, NearShard] = {}
        self._numbers = StreamNumbers()
        self._stopped = False

    def loops(self) -> Sequence[KeeperLoop]:
        """Return the loop that grants places."""
        return [KeeperLoop("hand_overs", self.turn, self._grant_soon)]

    async def turn(self) -> float:
        """Run the loop once: listen for shards, and grant free places.

        units:   returns the seconds to wait before the next turn
        """
        self._grant_soon.clear()
        if self._server is None and not self._stopped:
            self._server = await listen(self._holder, self._accept)
        self._grant(self._deliveries.handlers.targets)
        self._confirm()
        if not self._shards or not self._deliveries.handlers.targets:
            return IDLE_S
        return GRANT_S if len(self._deliveries) else UNLEASED_S

    def stop(self) -> None:
        """Grant no more places; deliveries that still arrive are released together with the waiting deliveries."""
        self._stopped = True
        self._grant(self._deliveries.handlers.targets)
        self._grant_soon.set()

    async def break_off(self) -> None:
        """Close all connections."""
        if self._server is not None:
            self._server.close()
        for shard in list(self._shards):
            shard.close()

    def _accept(self) -> HandOverSocket:
        socket = HandOverSocket(self._receive, self._remove)
        self._shards[socket] = NearShard()
        self._grant_soon.set()
        return socket

    def _remove(self, socket: HandOverSocket) -> None:
        self._shards.pop(socket, None)
        self._grant_soon.set()

    def _receive(self, socket: HandOverSocket, message: Any) -> None:
        shard = self._shards[socket]
        if isinstance(message, Begins):
            shard.stream = message.stream
        elif isinstance(message, Kept):
            shard.places.keep(message.limits)
            self._note_granted(message.limits)
        elif isinstance(message, HandedOver):
            deliveries = [ClaimedDelivery._make(row) for row in message.rows]
            counts = Counter(it.target for it in deliveries)
            for target, count in counts.items():
                shard.places.take(target, count)
            self._note_granted(counts)
            # A message may arrive twice, because an earlier connection may have ended before the confirmation.
            if self._numbers.take(shard.stream, message.number):
                self._deliveries.take_over(message, deliveries)
            self._grant(counts)

    def _confirm(self) -> None:
        for socket, shard in self._shards.items():
            if (last := self._numbers.last(shard.stream)) > shard.confirmed:
                shard.confirmed = last
                socket.send(Taken(last))

    def _grant(self, targets: Collection[str]) -> None:
        """Grant each shard an equal share of each target's capacity."""
        shards = [(socket, shard.places) for socket, shard in self._shards.items() if socket.is_open]
        limits: dict[HandOverSocket, dict[str, int]] = {}
        for target in targets if shards else ():
            wanted = self._deliveries.handlers.grantable(target) if self._grants(target) else 0
            for number, (socket, places) in enumerate(shards):
                share = (wanted + number) // len(shards)
                if _needs_message(places.open(target), share) and (limit := places.change(target, share)) is not None:
                    limits.setdefault(socket, {})[target] = limit
        for socket, changed in limits.items():
            socket.send(GrantLimits(self._lease_s, changed))
        self._note_granted(targets)

    def _grants(self, target: str) -> bool:
        return not self._stopped and self._deliveries.may_claim and not self._deliveries.is_behind(target)

    def _note_granted(self, targets: Collection[str]) -> None:
        for target in targets:
            granted = sum(shard.places.open(target) for shard in self._shards.values())
            self._deliveries.handlers.note_granted(target, granted)


def _needs_message(open_now: int, share: int) -> bool:
    """Return whether the difference between a shard's free places and its share is large enough for a message."""
    return 2 * open_now <= share if open_now < share else 2 * open_now > 3 * share
