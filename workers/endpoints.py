"""All endpoints to which a worker has something to send."""

import asyncio
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from shardclock_server.keepers.keeper import Loop, Part
from shardclock_server.sql.deliveries.claim import Claim, ClaimedDelivery, Lane
from shardclock_server.sql.deliveries.settle import Settlement
from shardclock_server.sql.endpoints.endpoints import WEBHOOK, EndpointName, disable_gone_endpoint, find_endpoints
from shardclock_server.sql.session import Session, StatementRefused, StoreUnavailable
from shardclock_server.webhooks.endpoint import EndpointRules
from shardclock_server.webhooks.sender import Sender, SenderSettings
from shardclock_server.workers.budget import Budget
from shardclock_server.workers.context import WorkerContext
from shardclock_server.workers.endpoint_queue import EndpointQueue, Send

REFRESH_S = 1.0  # between two looks for endpoints that must be read, if none is asked for
NEW_BATCH = 100  # deliveries to new endpoints that one claim takes
QUEUES_MAX = 1_000  # each scan asks all of them for their places


@dataclass(frozen=True, slots=True)
class Room:
    """How many more deliveries a claim may take: `places` of each endpoint, as a scan asks for them, `most` in all.

    `new_places` are those of an endpoint of which nothing is known yet, unless its tenant is one of `full_tenants`.
    """

    places: dict[str, int]
    new_places: int
    full_tenants: Sequence[str]
    most: int


class Endpoints(Part):
    """Keep a queue for each endpoint to which something was sent lately, or whose breaker is open.

    `asked` is set when endpoints must be read: then the next turn reads them. All deliveries are counted
    together.
    """

    def __init__(
        self, context: WorkerContext, lookups: Session, rules: EndpointRules, *, send: Send | None = None
    ) -> None:
        """Keep what a queue needs; without `send`, a sender of its own is opened with the first delivery."""
        self.asked = asyncio.Event()
        self._lookups = lookups
        self._rules = rules
        self._context = context
        self._queues: dict[Lane, EndpointQueue] = {}
        self._send = send
        self._sender: Sender | None = None

    @property
    def breakers_open(self) -> int:
        """Count the breakers that are open."""
        return sum(queue.is_open for queue in self._queues.values())

    def room(self) -> Room:
        """Say how many more deliveries are taken, so that no tenant has more in hand than its share."""
        budget = Budget((lane.tenant_id, queue.load) for lane, queue in self._queues.items())
        places = {
            lane.place: min(queue.places, budget.places(lane.tenant_id, each_bytes=queue.each_bytes))
            for lane, queue in self._queues.items()
        }
        return Room(
            places, budget.new_places, budget.full_tenants, most=min(sum(places.values()) + NEW_BATCH, budget.free)
        )

    def add(self, lane: Lane, deliveries: Sequence[ClaimedDelivery]) -> None:
        """Take deliveries of one lane that were claimed."""
        queue = self._queues.get(lane)
        if queue is None:
            queue = self._queues[lane] = self._queue(lane)
        queue.add(deliveries)

    def loops(self) -> Sequence[Loop]:
        """List the loop of endpoints."""
        return [Loop("endpoints", self.turn, self.asked)]

    async def turn(self) -> float:
        """Make one turn of the endpoints' loop: read those to which something waits.

        units:   returns the seconds to wait before the next turn
        errors:  as `refresh`
        """
        await self.refresh(self._lookups)
        return REFRESH_S

    async def refresh(self, session: Session) -> None:
        """Read what must be read, forget what is idle, and disable what answered that it wants no more.

        Each is disabled alone, after all were read: one that can't be now is tried again by the next call, and keeps no
        other waiting.

        errors:  StoreUnavailable  no answer in time: call again
                 StatementRefused  one can't be disabled; all others are done
        """
        self.asked.clear()
        stale = [queue for queue in self._queues.values() if queue.is_stale]
        if stale:
            found = await find_endpoints(session, [queue.key for queue in stale])
            for queue in stale:
                queue.learn(found.get(queue.key))
        for lane in [lane for lane, queue in self._queues.items() if queue.is_idle]:
            del self._queues[lane]
        self._forget_surplus()
        await self._disable_gone(session)

    def _forget_surplus(self) -> None:
        """Forget the queues that have rested longest, beyond so many; those of endpoints that fail come last."""
        surplus = len(self._queues) - QUEUES_MAX
        if surplus <= 0:
            return
        resting = [lane for lane, queue in self._queues.items() if queue.is_resting]
        resting.sort(key=lambda lane: (self._queues[lane].is_failing, self._queues[lane].used_at_s))
        for lane in resting[:surplus]:
            del self._queues[lane]

    async def _disable_gone(self, session: Session) -> None:
        failure: StoreUnavailable | StatementRefused | None = None
        for queue in list(self._queues.values()):
            if (gone := queue.gone) is None:
                continue
            try:
                if await disable_gone_endpoint(session, queue.key, url=gone.url, why=gone.answer):
                    queue.forget()
                    self.asked.set()  # what waits for it is to be read again
            except (StoreUnavailable, StatementRefused) as error:
                failure = failure or error
        if failure is not None:
            raise failure

    def drop(self, lost: Collection[Claim]) -> None:
        """Forget what waits and is another worker's now."""
        for queue in self._queues.values():
            queue.drop(lost)

    def stop(self) -> None:
        """Send nothing more, and end the wait of the loop."""
        self.asked.set()
        self.end_calls()

    def end_calls(self) -> set[asyncio.Task[None]]:
        """Send nothing more; return what is on the way."""
        return {task for queue in self._queues.values() for task in queue.stop()}

    def give_back(self) -> list[Settlement]:
        """Give up what waits: attempts that did not take place."""
        return [settlement for queue in self._queues.values() for settlement in queue.give_back()]

    async def break_off(self) -> None:
        """Break off what is being sent, and close all connections."""
        await asyncio.gather(*(queue.close() for queue in self._queues.values()))
        if self._sender is not None:
            await self._sender.close()

    def _queue(self, lane: Lane) -> EndpointQueue:
        if self._send is None:
            self._sender = Sender(SenderSettings(), networks=self._rules.networks)
            self._send = self._sender.send_in_turn
        key = EndpointName(lane.tenant_id, lane.target.removeprefix(WEBHOOK))
        return EndpointQueue(key, self._rules, self._context, send=self._send, ask=self.asked.set)
