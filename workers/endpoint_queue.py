"""The deliveries of one endpoint in one worker: those that wait, and those that are being sent."""

import asyncio
import time
from collections import deque
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol

import structlog

from shardclock import Failed, Policy
from shardclock_server.keepers.loops import one_line
from shardclock_server.sql.deliveries.claim import Claim, ClaimedDelivery
from shardclock_server.sql.deliveries.settle import Ending, Settlement
from shardclock_server.sql.endpoints.endpoints import EndpointName, StoredEndpoint
from shardclock_server.webhooks.answers import Answer, Fault, Gone, Retry
from shardclock_server.webhooks.endpoint import Endpoint, EndpointRules
from shardclock_server.webhooks.policy import policy_of
from shardclock_server.webhooks.sender import Message
from shardclock_server.workers.attempts import settlement_of, why_not
from shardclock_server.workers.breaker import Breaker, BreakerSettings
from shardclock_server.workers.budget import Load
from shardclock_server.workers.calls import Calls
from shardclock_server.workers.context import WorkerContext
from shardclock_server.workers.route import Route, route_of
from shardclock_server.workers.webhook import message_of, settlement_after

FRESH_S = 2.0  # how long what was read of an endpoint may be used
IDLE_S = 60.0  # an endpoint to which nothing was sent for this long is forgotten
FAILING_IDLE_S = 3_600.0  # and one that fails, or has asked for a pause: no pause is longer


class Send(Protocol):
    """Send one delivery, as `Sender.send_in_turn` does; call `write` when its turn has come."""

    async def __call__(self, endpoint: Endpoint, write: Callable[[], Message], *, tenant_id: str) -> Answer: ...


@dataclass(frozen=True, slots=True)
class GoneAt:
    """An endpoint at this URL answered that it wants no more."""

    url: str
    answer: str


class NotNow(Exception):
    """Break off an attempt whose turn has come when nothing may be sent: it did not take place."""


class EndpointQueue:
    """Send the deliveries of one endpoint, as many at a time as its breaker allows.

    `ask` is called when the endpoint must be read, which `learn` answers.
    """

    def __init__(
        self,
        key: EndpointName,
        rules: EndpointRules,
        context: WorkerContext,
        *,
        send: Send,
        ask: Callable[[], None],
    ) -> None:
        self.key = key
        self.gone: GoneAt | None = None  # nobody has recorded that yet
        self._rules = rules
        self._transmit = send
        self._context = context
        self._settle = context.outcomes.settle
        self._now = context.clock.now
        self._ask = ask
        self.load = Load()
        self.each_bytes = 0  # of one payload, in the mean of the last claim
        self._waiting: deque[ClaimedDelivery] = deque()
        self._unsent: dict[Claim, ClaimedDelivery] = {}  # of those that are on the way, which wait for their turn
        self._sending = Calls(context.broken)
        self._route: Route | None = None
        self._breaker = self._breaker_of(policy_of({}))
        self._read_at_s = float("-inf")
        self.used_at_s = float("-inf")
        self._alarm: asyncio.TimerHandle | None = None
        self._stopped = False

    def __len__(self) -> int:
        """Count the deliveries in hand."""
        return len(self._waiting) + len(self._sending)

    @property
    def is_open(self) -> bool:
        """Say whether its breaker is open: the endpoint fails, and is only probed."""
        return self._breaker.is_open

    @property
    def is_idle(self) -> bool:
        """Say whether nothing would be lost if it were forgotten: not that it fails, nor how far its rate is used up.

        An endpoint that fails and gets no more deliveries would be kept for good: only an attempt closes its breaker.
        """
        rests = time.monotonic() > self.used_at_s + (FAILING_IDLE_S if self.is_failing else IDLE_S)
        return rests and self.is_resting

    @property
    def is_failing(self) -> bool:
        """Say whether the endpoint fails, or has a pause."""
        return self.is_open or not self._breaker.limit(time.monotonic())

    @property
    def is_resting(self) -> bool:
        """Say whether there is nothing to do for the endpoint, and its rate is not used up."""
        return not len(self) and self.gone is None and not self._breaker.owes(time.monotonic())

    @property
    def is_stale(self) -> bool:
        """Say whether something waits, and the endpoint must be read first."""
        return bool(self._waiting) and time.monotonic() > self._read_at_s + FRESH_S

    @property
    def places(self) -> int:
        """Return how many more deliveries the endpoint takes; none in a pause."""
        most = 2 * self._breaker.limit(time.monotonic())
        if self._route is not None and (rate := self._route.policy.rate_per_s) is not None:
            most = min(most, 1 + int(rate))  # a second's worth
        return max(0, most - len(self))

    def add(self, deliveries: Sequence[ClaimedDelivery]) -> None:
        """Take deliveries that were claimed."""
        self.used_at_s = time.monotonic()
        before = self.load.payload_bytes
        self.load.add(deliveries)
        self.each_bytes = (self.load.payload_bytes - before) // max(1, len(deliveries))
        self._waiting.extend(deliveries)
        self._begin()

    def learn(self, stored: StoredEndpoint | None) -> None:
        """Take note of the endpoint as it is stored now; None: it was removed."""
        self._read_at_s = time.monotonic()
        if self._route is None or self._route.stored != stored:
            before = self._route.policy if self._route else None
            self._route = route_of(stored, self._rules)
            # Where nothing may be sent nothing is probed.
            if self._route.policy != before or self._route.endpoint is None:
                self._breaker = self._breaker_of(self._route.policy)
        self._begin()

    def drop(self, lost: Collection[Claim]) -> None:
        """Forget what waits and is another worker's now; what is on the way can't be taken back."""
        self.load.remove([it for it in self._waiting if it.claim in lost])
        self._waiting = deque(it for it in self._waiting if it.claim not in lost)

    def forget(self) -> None:
        """Forget that it is gone, which is recorded now, and how it was stored before."""
        self.gone = None
        self._route = None
        self._breaker = self._breaker_of(policy_of({}))
        self._read_at_s = float("-inf")

    def stop(self) -> set[asyncio.Task[None]]:
        """Send nothing more; return what is on the way."""
        self._stopped = True
        return set(self._sending)

    def give_back(self, *, delay_s: float = 0.0) -> list[Settlement]:
        """Give up what waits: attempts that did not take place."""
        return [Settlement(delivery, None, delay_s=delay_s) for delivery in self._take_waiting()]

    async def close(self) -> None:
        """Break off what is being sent, and give up what still waits for its turn: attempts that did not take place."""
        if self._alarm is not None:
            self._alarm.cancel()
        await self._sending.break_off()
        self._settle([Settlement(it, None) for it in self._unsent.values()])
        self._unsent.clear()

    def _begin(self) -> None:
        """Send what may be sent now; what may not is sent later, or given back if the endpoint has a pause."""
        if self.is_stale:
            self._ask()
            return
        if self._stopped or self._route is None or not self._waiting:
            return
        if self._route.endpoint is None:
            self._settle([self._refused(delivery, self._route) for delivery in self._take_waiting()])
            return
        now_s = time.monotonic()
        while self._waiting and self._breaker.places(now_s):
            self._begin_one(self._waiting.popleft(), self._route, self._route.endpoint)
        next_at_s = self._breaker.next_at_s(now_s)
        if self._waiting and not self._breaker.limit(now_s):
            self._settle(self.give_back(delay_s=next_at_s - now_s))
        elif self._waiting and next_at_s > now_s:
            self._wake_in(next_at_s - now_s)

    def _begin_one(self, delivery: ClaimedDelivery, route: Route, endpoint: Endpoint) -> None:
        if ended := why_not(delivery, route.policy, now=self._now()):
            self.load.remove([delivery])
            self._settle([ended])
            return
        self._unsent[delivery.claim] = delivery
        term = self._breaker.begin(time.monotonic())
        self._sending.begin(self._send(delivery, route, endpoint, self._breaker, term))

    async def _send(
        self, delivery: ClaimedDelivery, route: Route, endpoint: Endpoint, breaker: Breaker, term: int
    ) -> None:
        answer: Answer
        heard: Answer | None = None  # from the endpoint
        try:
            heard = answer = await self._transmit(
                endpoint, partial(self._write, delivery), tenant_id=self.key.tenant_id
            )
        except NotNow:
            return
        except Exception as error:  # noqa: BLE001 - a fault of ours costs it an attempt: it must not stay in hand
            structlog.get_logger().exception("sending broken off", endpoint=self.key.name, tenant=self.key.tenant_id)
            answer = Retry(f"the worker failed: {one_line(error)}", 0.0, fault=Fault.DELIVERY)
        finally:
            self.load.remove([delivery])
            breaker.end(term, heard, time.monotonic())
        self._unsent.pop(delivery.claim, None)
        if isinstance(answer, Gone) and self._route is route:
            assert route.stored is not None, "something was sent"
            self.gone = GoneAt(route.stored.url, answer.reason)
            self._route = route.closed(answer.reason)
            self._ask()
        self._settle([settlement_after(delivery, answer, route.policy, now=self._now(), jitter=self._context.jitter)])
        self._begin()

    def _write(self, delivery: ClaimedDelivery) -> Message:
        """Write what is sent now, and count it: a body that waited for its turn would be in memory for nothing.

        errors:  NotNow  nothing may be sent, or it is another worker's now
        """
        del self._unsent[delivery.claim]
        if self._stopped:
            self._settle([Settlement(delivery, None)])
            raise NotNow
        if not self._context.permits.held([delivery]):  # it has given it back, or has let it go
            raise NotNow
        self._context.stats.count_called(delivery.target, [delivery], now=self._now())
        return message_of(delivery)

    def _take_waiting(self) -> list[ClaimedDelivery]:
        waiting = list(self._waiting)
        self._waiting.clear()
        self.load.remove(waiting)
        return waiting

    def _refused(self, delivery: ClaimedDelivery, route: Route) -> Settlement:
        if route.is_final:
            return Settlement(delivery, Ending.DEAD, fails=True, reason=route.why_not)
        failed = Failed(route.why_not or "")
        return settlement_of(delivery, failed, route.policy, now=self._now(), jitter=self._context.jitter)

    def _wake_in(self, delay_s: float) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
        self._alarm = asyncio.get_running_loop().call_later(delay_s, self._begin)

    def _breaker_of(self, policy: Policy) -> Breaker:
        assert policy.concurrency is not None, "an endpoint's policy has all numbers"
        settings = BreakerSettings(concurrency=policy.concurrency, per_s=policy.rate_per_s)
        return Breaker(settings, self._context.jitter)
