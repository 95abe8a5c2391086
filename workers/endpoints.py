"""All endpoints that have deliveries in one worker."""

import asyncio
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from shardclock_server.keepers.keeper import KeeperLoop, KeeperPart
from shardclock_server.sql.deliveries.claim import Claim, ClaimedDelivery, Lane
from shardclock_server.sql.deliveries.settle import Settlement
from shardclock_server.sql.endpoints.endpoints import EndpointName, disable_gone_endpoint, find_endpoints
from shardclock_server.sql.session import Session, StatementRefused, StoreUnavailable
from shardclock_server.webhooks.endpoint import EndpointRules
from shardclock_server.webhooks.sender import SenderSettings, WebhookSender
from shardclock_server.workers.attempt_log import AttemptLog
from shardclock_server.workers.context import WorkerContext
from shardclock_server.workers.endpoint_queue import EndpointQueue, Send
from shardclock_server.workers.webhook_budget import WebhookBudget

REFRESH_S = 1.0  # The pause of the loop while no endpoint must be read.
NEW_BATCH = 100  # The largest number of deliveries for new endpoints in one claim.
QUEUES_MAX = 1_000  # The limit of queues, because each claim computes the free capacity of all queues.


@dataclass(frozen=True, slots=True)
class EndpointCapacity:
    """The numbers of deliveries that the next claim may take.

    shape:   `places` has the number for each lane, `most` is the total, and `new_places` is the number for each
             endpoint without a queue; endpoints of `full_tenants` without a queue get no deliveries
    """

    places: dict[str, int]
    new_places: int
    full_tenants: Sequence[str]
    most: int


class Endpoints(KeeperPart):
    """Have a queue for each endpoint with recent deliveries or an open breaker.

    `refresh_wanted` wakes the loop when endpoints must be read.
    """

    def __init__(
        self, context: WorkerContext, lookups: Session, rules: EndpointRules, *, send: Send | None = None
    ) -> None:
        """Start without queues; if `send` is missing, the first delivery opens a sender."""
        self.refresh_wanted = asyncio.Event()
        self._lookups = lookups
        self._rules = rules
        self._context = context
        self._queues: dict[Lane, EndpointQueue] = {}
        self._send = send
        self._sender: WebhookSender | None = None
        self._attempts = AttemptLog()

    @property
    def breakers_open(self) -> int:
        """Count the breakers that are open."""
        return sum(queue.is_open for queue in self._queues.values())

    def capacity(self) -> EndpointCapacity:
        """Return how many more deliveries a claim may take, within each tenant's limit."""
        budget = WebhookBudget((lane.tenant_id, queue.usage) for lane, queue in self._queues.items())
        places = {
            lane.place: min(queue.places, budget.places(lane.tenant_id, each_bytes=queue.each_bytes))
            for lane, queue in self._queues.items()
        }
        return EndpointCapacity(
            places, budget.new_places, budget.full_tenants, most=min(sum(places.values()) + NEW_BATCH, budget.free)
        )

    def add(self, lane: Lane, deliveries: Sequence[ClaimedDelivery]) -> None:
        """Add claimed deliveries of one lane."""
        queue = self._queues.get(lane)
        if queue is None:
            queue = self._queues[lane] = self._new_queue(lane)
        queue.add(deliveries)

    def loops(self) -> Sequence[KeeperLoop]:
        """Return the loop that maintains the queues."""
        return [KeeperLoop("endpoints", self.turn, self.refresh_wanted)]

    async def turn(self) -> float:
        """Run the loop once.

        units:   returns the seconds to wait before the next turn
        errors:  as `refresh`
        """
        await self.refresh(self._lookups)
        return REFRESH_S

    async def refresh(self, session: Session) -> None:
        """Read stale endpoints, remove idle queues, disable endpoints that answered 410 Gone, and write attempts.

        Each endpoint is disabled by a separate statement. If a statement fails, the next call of this method repeats
        it.

        errors:  StoreUnavailable  no answer before the timeout: call again.
                 StatementRefused  one endpoint can't be disabled; all other endpoints were disabled.
        """
        self.refresh_wanted.clear()
        stale = [queue for queue in self._queues.values() if queue.is_stale]
        if stale:
            found = await find_endpoints(session, [queue.key for queue in stale])
            for queue in stale:
                queue.update(found.get(queue.key))
        for lane in [lane for lane, queue in self._queues.items() if queue.is_idle]:
            del self._queues[lane]
        self._remove_surplus()
        await self._disable_gone(session)
        await self._attempts.write(session)

    def _remove_surplus(self) -> None:
        """Remove surplus queues, the least recently used queues first; remove queues of failing endpoints last."""
        surplus = len(self._queues) - QUEUES_MAX
        if surplus <= 0:
            return
        unused = [lane for lane, queue in self._queues.items() if queue.is_unused]
        unused.sort(key=lambda lane: (self._queues[lane].is_failing, self._queues[lane].used_at_s))
        for lane in unused[:surplus]:
            del self._queues[lane]

    async def _disable_gone(self, session: Session) -> None:
        failure: StoreUnavailable | StatementRefused | None = None
        for queue in list(self._queues.values()):
            if (answer := queue.gone) is None:
                continue
            try:
                if await disable_gone_endpoint(session, queue.key, url=answer.url, why=answer.reason):
                    queue.reset()
                    self.refresh_wanted.set()  # the endpoint's waiting deliveries need its new row
            except (StoreUnavailable, StatementRefused) as error:
                failure = failure or error
        if failure is not None:
            raise failure

    def drop(self, lost: Collection[Claim]) -> None:
        """Drop waiting deliveries that another worker has claimed."""
        for queue in self._queues.values():
            queue.drop(lost)

    def stop(self) -> None:
        """Start no more attempts, and wake the loop."""
        self.refresh_wanted.set()
        self.end_calls()

    def end_calls(self) -> set[asyncio.Task[None]]:
        """Start no more attempts; return the tasks of the running attempts."""
        return {task for queue in self._queues.values() for task in queue.stop()}

    def give_back(self) -> list[Settlement]:
        """Release all waiting deliveries without counting an attempt."""
        return [settlement for queue in self._queues.values() for settlement in queue.give_back()]

    async def break_off(self) -> None:
        """Cancel all attempts, and close all connections."""
        await asyncio.gather(*(queue.close() for queue in self._queues.values()))
        if self._sender is not None:
            await self._sender.close()

    def _new_queue(self, lane: Lane) -> EndpointQueue:
        if self._send is None:
            self._sender = WebhookSender(SenderSettings(), networks=self._rules.networks)
            self._send = self._sender.send_in_turn
        key = EndpointName.of_target(lane.tenant_id, lane.target)
        return EndpointQueue(
            key,
            self._rules,
            self._context,
            send=self._send,
            request_refresh=self.refresh_wanted.set,
            attempts=self._attempts,
        )
