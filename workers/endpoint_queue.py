"""Queue and send the deliveries of one endpoint in one worker."""

import asyncio
import time
from collections import deque
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol

import structlog

from shardclock import Failed, Policy
from shardclock.reason import reason_of
from shardclock_server.sql.deliveries.claim import Claim, ClaimedDelivery
from shardclock_server.sql.deliveries.settle import DeliveryEnding, Settlement
from shardclock_server.sql.endpoints.endpoints import EndpointName, StoredEndpoint
from shardclock_server.webhooks.answer_classification import Answer, EndpointGone, FaultSide, RetryDelivery
from shardclock_server.webhooks.endpoint import Endpoint, EndpointRules
from shardclock_server.webhooks.policy_defaults import policy_of
from shardclock_server.webhooks.sender import WebhookMessage
from shardclock_server.workers.attempt_log import AttemptLog
from shardclock_server.workers.attempts import settlement_of, settlement_without_call
from shardclock_server.workers.breaker import Breaker, BreakerSettings
from shardclock_server.workers.context import WorkerContext
from shardclock_server.workers.route import Route, route_of
from shardclock_server.workers.task_set import TaskSet
from shardclock_server.workers.webhook import message_of, settlement_after
from shardclock_server.workers.webhook_budget import MemoryUsage

FRESH_S = 2.0  # The age at which the endpoint's row must be read again.
IDLE_S = 60.0  # The time without a delivery after which the queue is removed.
# The idle time after which the queue of a failing or paused endpoint is removed; it is longer than any pause.
FAILING_IDLE_S = 3_600.0


class Send(Protocol):
    """The interface of `WebhookSender.send_in_turn`: wait for a permit, call `write`, and send its message."""

    async def __call__(self, endpoint: Endpoint, write: Callable[[], WebhookMessage], *, tenant_id: str) -> Answer: ...


@dataclass(frozen=True, slots=True)
class GoneAnswer:
    """The answer 410 Gone of an endpoint: the URL of the request, and the reason in words."""

    url: str
    reason: str


class AttemptSkipped(Exception):
    """The attempt must not start; it does not count as a failed attempt."""


class EndpointQueue:
    """Send the deliveries of one endpoint, as many at a time as its breaker allows.

    When the queue needs the endpoint's row, it calls `request_refresh`; the worker then calls `update` with the row.
    """

    def __init__(
        self,
        key: EndpointName,
        rules: EndpointRules,
        context: WorkerContext,
        *,
        send: Send,
        request_refresh: Callable[[], None],
        attempts: AttemptLog,
    ) -> None:
        self.key = key
        self.gone: GoneAnswer | None = None  # a 410 answer that is not stored yet
        self._rules = rules
        self._transmit = send
        self._context = context
        self._settle = context.outcomes.settle
        self._now = context.clock.now
        self._request_refresh = request_refresh
        self._attempts = attempts
        self.usage = MemoryUsage()
        self.each_bytes = 0  # the mean payload size in the last claim
        self._waiting: deque[ClaimedDelivery] = deque()
        self._unsent: dict[Claim, ClaimedDelivery] = {}  # attempts that wait for a permit of the sender
        self._sending = TaskSet(context.on_fault)
        self._route: Route | None = None
        self._breaker = self._breaker_of(policy_of({}))
        self._read_at_s = float("-inf")
        self.used_at_s = float("-inf")
        self._alarm: asyncio.TimerHandle | None = None
        self._stopped = False

    def __len__(self) -> int:
        """Count the deliveries that wait or are being sent."""
        return len(self._waiting) + len(self._sending)

    @property
    def is_open(self) -> bool:
        """Return whether the breaker is open: the endpoint fails, and gets only probes."""
        return self._breaker.is_open

    @property
    def is_idle(self) -> bool:
        """Return whether the queue can be removed, because the state of its breaker and its rate limit is not needed.

        The idle queue of a failing endpoint is removed after an hour, although its breaker is open.
        """
        rests = time.monotonic() > self.used_at_s + (FAILING_IDLE_S if self.is_failing else IDLE_S)
        return rests and self.is_unused

    @property
    def is_failing(self) -> bool:
        """Return whether the endpoint fails or is paused."""
        return self.is_open or not self._breaker.limit(time.monotonic())

    @property
    def is_unused(self) -> bool:
        """Return whether the queue is empty, has no 410 answer to store, and has not used its rate limit."""
        return not len(self) and self.gone is None and not self._breaker.is_rate_used(time.monotonic())

    @property
    def is_stale(self) -> bool:
        """Return whether the worker must read the endpoint before it sends the waiting deliveries."""
        return bool(self._waiting) and time.monotonic() > self._read_at_s + FRESH_S

    @property
    def places(self) -> int:
        """Return how many more deliveries a claim may take; 0 while the endpoint is paused."""
        most = 2 * self._breaker.limit(time.monotonic())
        if self._route is not None and (rate := self._route.policy.rate_per_s) is not None:
            most = min(most, 1 + int(rate))  # the number of attempts in one second
        return max(0, most - len(self))

    def add(self, deliveries: Sequence[ClaimedDelivery]) -> None:
        """Add claimed deliveries."""
        self.used_at_s = time.monotonic()
        before = self.usage.payload_bytes
        self.usage.add(deliveries)
        self.each_bytes = (self.usage.payload_bytes - before) // max(1, len(deliveries))
        self._waiting.extend(deliveries)
        self._begin()

    def update(self, stored: StoredEndpoint | None) -> None:
        """Update the endpoint from its stored row; None: the row was removed."""
        self._read_at_s = time.monotonic()
        if self._route is None or self._route.stored != stored:
            before = self._route.policy if self._route else None
            self._route = route_of(stored, self._rules)
            # A closed route gets no probes, so an open breaker would stay open.
            if self._route.policy != before or self._route.endpoint is None:
                self._breaker = self._breaker_of(self._route.policy)
        self._begin()

    def drop(self, lost: Collection[Claim]) -> None:
        """Drop waiting deliveries that another worker has claimed; running attempts continue."""
        self.usage.remove([it for it in self._waiting if it.claim in lost])
        self._waiting = deque(it for it in self._waiting if it.claim not in lost)

    def reset(self) -> None:
        """Reset the queue after the endpoint was disabled in the database."""
        self.gone = None
        self._route = None
        self._breaker = self._breaker_of(policy_of({}))
        self._read_at_s = float("-inf")

    def stop(self) -> set[asyncio.Task[None]]:
        """Start no more attempts; return the tasks of the running attempts."""
        self._stopped = True
        return set(self._sending)

    def give_back(self, *, delay_s: float = 0.0) -> list[Settlement]:
        """Release all waiting deliveries without counting an attempt."""
        return [Settlement(delivery, None, delay_s=delay_s) for delivery in self._take_waiting()]

    async def close(self) -> None:
        """Cancel all attempts, and release the unsent deliveries without counting an attempt."""
        if self._alarm is not None:
            self._alarm.cancel()
        await self._sending.break_off()
        self._settle([Settlement(it, None) for it in self._unsent.values()])
        self._unsent.clear()

    def _begin(self) -> None:
        """Start as many attempts as the breaker allows; if the endpoint is paused, release waiting deliveries."""
        if self.is_stale:
            self._request_refresh()
            return
        if self._stopped or self._route is None or not self._waiting:
            return
        if self._route.endpoint is None:
            self._settle([self._refusal_of(delivery, self._route) for delivery in self._take_waiting()])
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
        if ended := settlement_without_call(delivery, route.policy, now=self._now()):
            self.usage.remove([delivery])
            self._settle([ended])
            return
        self._unsent[delivery.claim] = delivery
        term = self._breaker.begin(time.monotonic())
        self._sending.begin(self._send(delivery, route, endpoint, self._breaker, term))

    async def _send(
        self, delivery: ClaimedDelivery, route: Route, endpoint: Endpoint, breaker: Breaker, term: int
    ) -> None:
        answer: Answer
        endpoint_answer: Answer | None = None  # stays None if the worker itself has an error
        try:
            endpoint_answer = answer = await self._transmit(
                endpoint, partial(self._write, delivery), tenant_id=self.key.tenant_id
            )
        except AttemptSkipped:
            return
        except Exception as error:  # noqa: BLE001 - a fault of the worker is a failed attempt
            structlog.get_logger().exception("sending broken off", endpoint=self.key.name, tenant=self.key.tenant_id)
            answer = RetryDelivery(f"the worker failed: {reason_of(error)}", 0.0, fault=FaultSide.DELIVERY)
        finally:
            self.usage.remove([delivery])
            breaker.end(term, endpoint_answer, time.monotonic())
        self._unsent.pop(delivery.claim, None)
        if endpoint_answer is not None:
            self._attempts.add(self.key, delivery, endpoint_answer)
        if isinstance(answer, EndpointGone) and self._route is route:
            assert route.stored is not None, "something was sent"
            self.gone = GoneAnswer(route.stored.url, answer.reason)
            self._route = route.closed(answer.reason)
            self._request_refresh()
        self._settle([settlement_after(delivery, answer, route.policy, now=self._now(), jitter=self._context.jitter)])
        self._begin()

    def _write(self, delivery: ClaimedDelivery) -> WebhookMessage:
        """Write the message and count the attempt.

        The sender calls this method only when it has a permit. So a delivery that waits for a permit uses no memory for
        its body.

        errors:  AttemptSkipped  the queue has stopped, or the delivery's lease has ended
        """
        del self._unsent[delivery.claim]
        if self._stopped:
            self._settle([Settlement(delivery, None)])
            raise AttemptSkipped
        # `permits` has released the delivery, or the delivery's lease has ended
        if not self._context.permits.held([delivery]):
            raise AttemptSkipped
        self._context.stats.count_called(delivery.target, [delivery], now=self._now())
        return message_of(delivery)

    def _take_waiting(self) -> list[ClaimedDelivery]:
        waiting = list(self._waiting)
        self._waiting.clear()
        self.usage.remove(waiting)
        return waiting

    def _refusal_of(self, delivery: ClaimedDelivery, route: Route) -> Settlement:
        if route.is_final:
            return Settlement(delivery, DeliveryEnding.DEAD, fails=True, reason=route.closed_reason)
        failed = Failed(route.closed_reason or "")
        return settlement_of(delivery, failed, route.policy, now=self._now(), jitter=self._context.jitter)

    def _wake_in(self, delay_s: float) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
        self._alarm = asyncio.get_running_loop().call_later(delay_s, self._begin)

    def _breaker_of(self, policy: Policy) -> Breaker:
        assert policy.concurrency is not None, "an endpoint's policy sets all numbers"
        settings = BreakerSettings(concurrency=policy.concurrency, per_s=policy.rate_per_s)
        return Breaker(settings, self._context.jitter)
