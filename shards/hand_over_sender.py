"""Send deliveries directly to the workers of this machine, within the limits that these workers have set."""

import asyncio
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol, TypeVar

from shardclock_server.keepers.hand_over_socket import (
    Begins,
    GrantLimits,
    HandedOver,
    HandOverSocket,
    Kept,
    Taken,
    connect,
)
from shardclock_server.keepers.places import UsablePlaces
from shardclock_server.keepers.unconfirmed import Unconfirmed
from shardclock_server.sql.claims.claim import ScanResult
from shardclock_server.sql.claims.handed import Grants, Handed, Row
from shardclock_server.sql.deliveries.claim import ClaimedDelivery
from shardclock_server.sql.deliveries.settle import Settlement, settle_deliveries
from shardclock_server.sql.firing.fire import Fired
from shardclock_server.sql.session import Session

CONNECT_S = 1.0  # The time between two attempts to connect to a worker.
RELEASED_MAX = 1_000  # One statement releases at most this many deliveries.
TARGET = ClaimedDelivery._fields.index("target")


@dataclass(eq=False)
class NearWorker:
    """A connection to a worker of this machine, and the number of deliveries (places) that the worker accepts."""

    unconfirmed: Unconfirmed
    socket: HandOverSocket | None = None
    lease_s: float = 0.0
    places: UsablePlaces = field(default_factory=UsablePlaces)

    def hear(self, socket: HandOverSocket, message: Any) -> None:
        """Handle a message of the worker: new limits, or a confirmation."""
        if isinstance(message, GrantLimits):
            self.lease_s = message.lease_s
            if kept := self.places.learn(message.limits):
                socket.send(Kept(kept))
        elif isinstance(message, Taken):
            self.unconfirmed.confirm(message.number)

    def begin(self) -> None:
        """Start the message stream on a new connection: send again all deliveries without a confirmation."""
        assert self.socket is not None
        self.socket.send(Begins(self.unconfirmed.stream))
        for message in self.unconfirmed.lasting():
            self.places.fill(targets_of(message.rows))
            self.socket.send(message)

    @property
    def reads(self) -> bool:
        """Return whether the worker is connected and reads messages."""
        return self.socket is not None and self.socket.is_writable

    def pass_on(self, message: HandedOver) -> bool:
        """Send deliveries; return False if the connection has ended."""
        if self.socket is None or not self.socket.is_open:
            return False
        self.socket.send(self.unconfirmed.add(message))
        return True


def targets_of(rows: Sequence[Row]) -> Counter[str]:
    """Count deliveries by target."""
    return Counter(row[TARGET] for row in rows)


class DeliveryNotifier(Protocol):
    """The interface of `sql.notification_sender.NotificationSender`, which notifies workers of deliveries."""

    def want(self, new: int) -> None:
        """Request that workers are notified of `new` deliveries."""


ResultT = TypeVar("ResultT", ScanResult, Fired)


class HandOverSender:
    """Keep a connection to each worker of this machine, and send each worker the deliveries that were claimed for it.

    Firing never waits for a worker. If a delivery can't be sent to its worker, the next iteration of the loop releases
    the delivery, so that any worker can claim it.
    """

    def __init__(self, session: Session, notifier: DeliveryNotifier) -> None:
        self.asked = asyncio.Event()  # the event ends the wait before the next iteration
        self._session, self._notifier = session, notifier
        self._near: frozenset[int] = frozenset()
        self._workers: dict[int, NearWorker] = {}
        # Keys: workers. A worker's messages survive the loss of a connection.
        self._unconfirmed: defaultdict[int, Unconfirmed] = defaultdict(Unconfirmed)
        # Keys: workers; values: deliveries that could not be sent, which the loop releases.
        self._left: defaultdict[int, list[Row]] = defaultdict(list)

    def learn(self, workers: Collection[int]) -> None:
        """Update the list of this machine's workers."""
        near = frozenset(workers)
        if near - self._near:
            self.asked.set()
        self._near = near
        for gone in self._workers.keys() - near:
            self._close(self._workers.pop(gone))
        for gone in self._unconfirmed.keys() - near:
            del self._unconfirmed[gone]

    async def during(self, send: Callable[[Grants], Awaitable[ResultT]]) -> ResultT:
        """Call `send` with the workers' free places; send the deliveries that `send` claimed to the workers.

        errors:  the errors of `send`. If only the answer was lost, the claimed deliveries are free when their leases
                 expire
        """
        workers = {holder: it for holder, it in self._workers.items() if it.reads}
        places = {holder: using for holder, it in workers.items() if (using := it.places.begin())}
        grants = Grants(places, min((workers[holder].lease_s for holder in places), default=0.0))
        handed: Handed = {}
        try:
            result = await send(grants)
            handed = result.handed
        finally:
            for holder, using in places.items():
                workers[holder].places.end(using, targets_of(handed.get(holder, ())))
        for holder, rows in handed.items():
            if not workers[holder].pass_on(HandedOver(0, result.server_time, grants.lease_s, rows)):
                self._left[holder] += rows
                self.asked.set()
        self._notifier.want(result.deliveries - sum(map(len, handed.values())))
        return result

    async def turn(self) -> float:
        """Run the loop once: connect to new workers, and release the deliveries that could not be sent.

        units:   returns the seconds to wait before the next iteration, unless `asked` is set
        errors:  StoreUnavailable  the deliveries are still claimed; the next iteration releases them
        """
        self.asked.clear()
        for holder in self._near - self._workers.keys():
            await self._connect(holder)
        while self._left:
            holder, rows = next(iter(self._left.items()))
            batch = rows[:RELEASED_MAX]
            await self._release(holder, batch)
            del rows[: len(batch)]
            if not rows:
                del self._left[holder]
        return CONNECT_S

    def close(self) -> None:
        """Close all connections."""
        self.learn(())

    async def _connect(self, holder: int) -> None:
        worker = NearWorker(self._unconfirmed[holder])
        make = partial(HandOverSocket, worker.hear, partial(self._lose, holder, worker))
        worker.socket = await connect(holder, make)
        if worker.reads and holder in self._near:
            worker.begin()
            self._workers[holder] = worker
        else:
            self._close(worker)

    async def _release(self, holder: int, rows: Sequence[Row]) -> None:
        """Release the claims of unsent deliveries; if the worker has ended, its claims are free already."""
        settlements = [Settlement(ClaimedDelivery._make(row), None, delay_s=None) for row in rows]
        await settle_deliveries(self._session, holder, settlements, leaves_locked=True)
        self._notifier.want(len(rows))

    def _lose(self, holder: int, worker: NearWorker, _: HandOverSocket) -> None:
        if self._workers.get(holder) is worker:
            del self._workers[holder]
            if len(worker.unconfirmed):
                self.asked.set()

    def _close(self, worker: NearWorker) -> None:
        if worker.socket is not None:
            worker.socket.close()
