"""The process in which a handler runs: a Ray actor that imports the user's code. It decides nothing."""

import asyncio
import pickle
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol, Self

from shardclock import (
    COMPLETED,
    Handler,
    Outcome,
    Timer,
    call_async,
    call_batch_async,
    call_batch_plain,
    call_plain,
    find_handlers,
)
from shardclock_server.keepers.collector import leave_out_of_collections
from shardclock_server.sql.deliveries.claim import ClaimedDelivery
from shardclock_server.workers.handler import HandlerSpec
from shardclock_server.workers.importing import prepare_to_import
from shardclock_server.workers.threads import in_a_thread
from shardclock_server.workers.user_process import UserActor, UserProcess, start_actor

# What crosses to the process for each delivery, in the order of Timer's fields.
Envelope = tuple[Any, ...]
# A process begins no more calls of a message after this time: a handler that has become slow must not keep hundreds.
BEGINS_S = 0.5


@dataclass(frozen=True, slots=True)
class CallResult:
    """How the calls of one message ended.

    shape:   an outcome for each delivery that was called: the first ones of the message, in order; at least one
    units:   `took_s` is the handler's own time for all of them, without the wait in the process
    """

    outcomes: Sequence[Outcome]
    took_s: float

    @classmethod
    def of(cls, outcomes: Sequence[Outcome | None], took_s: float) -> Self:
        """Read what `HandlerCalls.call` has returned."""
        return cls([COMPLETED if outcome is None else outcome for outcome in outcomes], took_s)


class HandlerProcess(Protocol):
    """Where a handler is called."""

    async def call(self, deliveries: Sequence[ClaimedDelivery]) -> CallResult:
        """Call the handler for each delivery.

        errors:  NotCalled    for none of them
                 ProcessDied  the process ended before it answered
        """

    async def ready(self) -> None:
        """Wait until the user's code is imported; later, until the process shows that it is alive.

        errors:  ProcessDied  it can't be imported, or has ended
        """

    async def gone(self) -> None:
        """Wait until the process has ended, which is told by an error alone.

        errors:  ProcessDied  it has ended
        """

    def kill(self) -> None:
        """End the process at once."""


class HandlerCalls:
    """Call one handler in this process."""

    def __init__(self, handler: Handler, calls_max: int) -> None:
        self._handler = handler
        # More calls may wait here than run. A plain function has the process to itself.
        self._room = asyncio.Semaphore(calls_max if handler.is_async else 1)

    async def call(self, envelopes: Iterable[Envelope]) -> tuple[list[Outcome | None], float]:
        """Call the handler for each timer: a plain function one by one, an async function for all at once.

        shape:   outcomes, None for a plain success, and the seconds that the handler took. Those that had no time to
                 begin have no outcome
        """
        handler, timers = self._handler, [Timer(*envelope) for envelope in envelopes]
        if handler.is_async and not handler.takes_batch:
            began_s = time.perf_counter()
            outcomes = await self._call_each(timers)
        else:
            async with self._room:
                began_s = time.perf_counter()
                if handler.is_async:
                    outcomes = await call_batch_async(handler, timers)
                else:
                    # In a thread: a plain function may run an event loop of its own.
                    outcomes = await in_a_thread(partial(_call_plain, handler, timers))
        took_s = time.perf_counter() - began_s
        return [None if outcome is COMPLETED else outcome for outcome in outcomes], took_s

    async def _call_each(self, timers: Sequence[Timer[str | None]]) -> list[Outcome]:
        calls: list[asyncio.Task[Outcome]] = []
        ends_s = 0.0
        for timer in timers:
            await self._room.acquire()
            if not calls:
                ends_s = time.perf_counter() + BEGINS_S
            elif time.perf_counter() > ends_s:
                self._room.release()
                break
            calls.append(asyncio.create_task(self._call_one(timer)))
        # One after the other: most have ended when the first has, and then this costs less than to gather them.
        return [await call for call in calls]

    async def _call_one(self, timer: Timer[str | None]) -> Outcome:
        try:
            return await call_async(self._handler, timer)
        finally:
            self._room.release()


class HandlerActor(UserActor):
    """Import an app and call one of its handlers."""

    def __init__(self, modules: str, directory: str, target: str, calls_max: int, priority: int) -> None:
        super().__init__()
        prepare_to_import(directory, priority=priority)
        self._calls = HandlerCalls(find_handlers(modules.split(","))[target], calls_max)
        leave_out_of_collections()

    async def answer(self, call: bytes) -> bytes:
        """Call the handler for each timer, as `HandlerCalls` does."""
        envelopes = pickle.loads(call)  # noqa: S301 - ours
        return pickle.dumps(await self._calls.call(envelopes), pickle.HIGHEST_PROTOCOL)


class RayHandlerProcess(UserProcess):
    """One handler's process on this node, or wherever Ray has the resources that the handler asks for.

    If there are nodes for workers alone, which offer `resource`, it runs on one of those.
    """

    def __init__(self, spec: HandlerSpec, *, modules: str, directory: str, resource: str | None = None) -> None:
        policy = spec.policy
        actor = start_actor(
            HandlerActor,
            *(modules, directory, spec.target, spec.calls_max, policy.priority),
            calls_max=spec.calls_max,
            num_cpus=policy.num_cpus,
            memory_mib=policy.memory_mib,
            resource=resource,
        )
        super().__init__(actor, whose="handler")

    async def call(self, deliveries: Sequence[ClaimedDelivery]) -> CallResult:
        """Call the handler for each delivery.

        errors:  NotCalled    for none of them: the socket is closed
                 ProcessDied  the process ended before it answered
        """
        # As bytes: Ray's own pickler asks Python about each object in them.
        envelopes = pickle.dumps([envelope_of(delivery) for delivery in deliveries], pickle.HIGHEST_PROTOCOL)
        return CallResult.of(*pickle.loads(await self.ask(envelopes)))  # noqa: S301 - ours


def _call_plain(handler: Handler, timers: Sequence[Timer[str | None]]) -> list[Outcome]:
    if handler.takes_batch:
        return call_batch_plain(handler, timers)
    ends_s = time.perf_counter() + BEGINS_S
    outcomes: list[Outcome] = []
    for timer in timers:
        outcomes.append(call_plain(handler, timer))
        if time.perf_counter() > ends_s:
            break
    return outcomes


def envelope_of(it: ClaimedDelivery) -> Envelope:
    """Return what a handler's process needs of a delivery."""
    return (
        it.timer_key, it.due_date, it.fired_at, it.occurrence, it.failed_attempts + 1, it.tenant_id, it.target,
        it.timer_type, it.name, it.schedule, it.target_element_id, it.process_instance_key, it.element_instance_key,
        it.payload,
    )  # fmt: skip
