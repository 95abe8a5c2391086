"""The process in which a handler runs: a Ray actor that imports the user's code. It decides nothing.

Ray is imported where it is used: a worker in a user's test has no part of it, and need not wait a second for it.
"""

import asyncio
import pickle
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol, Self

import structlog

from keepers.collector import leave_out_of_collections
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
from sql.deliveries.claim import ClaimedDelivery
from workers.call_socket import CallServer, CallSocket, NotSent, SocketLost, connected
from workers.ended import has_ended, sentence_of
from workers.handler import HandlerSpec
from workers.importing import prepare_to_import
from workers.threads import in_a_thread

# What crosses to the process for each delivery, in the order of Timer's fields.
Envelope = tuple[Any, ...]
# A process begins no more calls of a message after this time: a handler that has become slow must not keep hundreds.
BEGINS_S = 0.5
LEAST_SHARE = 0.0001  # of a Ray resource: ten thousand processes on a node that offers one


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


class ProcessDied(Exception):
    """A process of the user's code is gone; the message says how it ended, as far as that is known.

    `may_live`: only a connection to it is known to be lost, or it has answered that it failed.
    """

    def __init__(self, how: str, *, may_live: bool = False) -> None:
        super().__init__(how)
        self.may_live = may_live


class NotCalled(Exception):
    """The process can't be reached any more, and was not when it was to be called: nothing was called."""


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


class HandlerActor:
    """Import an app and call one of its handlers."""

    def __init__(self, modules: str, directory: str, target: str, calls_max: int, priority: int) -> None:
        prepare_to_import(directory, priority=priority)
        self._calls = HandlerCalls(find_handlers(modules.split(","))[target], calls_max)
        self._server = CallServer(self._answer)
        leave_out_of_collections()

    async def listen(self) -> str | None:
        """Listen for the worker, once the user's code is imported; return where, as `CallServer.listen` does."""
        return await self._server.listen()

    async def ready(self) -> None:
        """Answer: the process is alive, and nothing keeps its loop."""

    async def gone(self) -> None:
        """Never answer: the pending call fails when the process ends."""
        await asyncio.Event().wait()

    async def call(self, envelopes: bytes) -> tuple[list[Outcome | None], float]:
        """Call the handler for each timer, as `HandlerCalls` does: for a worker on another host.

        shape:   the envelopes come pickled
        """
        return await self._calls.call(pickle.loads(envelopes))  # noqa: S301 - ours

    async def _answer(self, envelopes: bytes) -> bytes:
        return pickle.dumps(await self.call(envelopes), pickle.HIGHEST_PROTOCOL)


class RayHandlerProcess:
    """One handler's process on this node, or wherever Ray has the resources that the handler asks for.

    If there are nodes for workers alone, which offer `resource`, it runs on one of those.
    """

    def __init__(self, spec: HandlerSpec, *, modules: str, directory: str, resource: str | None = None) -> None:
        import ray
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        asks = spec.policy.num_cpus is not None or spec.policy.memory_mib is not None
        here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=True)
        self._actor: Any = (
            ray.remote(HandlerActor)
            .options(
                num_cpus=spec.policy.num_cpus or 0,
                memory=spec.policy.memory_mib and spec.policy.memory_mib * 2**20,
                resources={resource: LEAST_SHARE} if resource else None,
                max_concurrency=spec.calls_max + 2,  # `listen` or `ready`, and `gone`, beside the calls
                scheduling_strategy="DEFAULT" if asks else here,
            )
            .remote(modules, directory, spec.target, spec.calls_max, spec.policy.priority)
        )
        self._is_up = False
        self._socket: CallSocket | None = None  # on another node there is none, and Ray carries the calls

    async def ready(self) -> None:
        """Wait until the user's code is imported; later, until the process shows that it is alive.

        errors:  ProcessDied  it can't be imported, or has ended
        """
        if self._is_up:
            await answer_of(self._actor.ready.remote(), whose="handler")
            return
        address = await answer_of(self._actor.listen.remote(), whose="handler")
        self._socket = await connected(address)
        self._is_up = True
        if self._socket is None:
            structlog.get_logger().info("handler called through Ray", why="its process can't be reached by a socket")

    async def gone(self) -> None:
        """Wait until the process has ended, which is told by an error alone; calls of it fail then, too.

        errors:  ProcessDied  it has ended
        """
        try:
            await answer_of(self._actor.gone.remote(), whose="handler")
        except ProcessDied as died:
            # What the user's code has forked may keep the socket open.
            self._lose(died)
            raise

    async def call(self, deliveries: Sequence[ClaimedDelivery]) -> CallResult:
        """Call the handler for each delivery.

        errors:  NotCalled    for none of them: the socket is closed
                 ProcessDied  the process ended before it answered
        """
        # As bytes: Ray's own pickler asks Python about each object in them.
        envelopes = pickle.dumps([envelope_of(delivery) for delivery in deliveries], pickle.HIGHEST_PROTOCOL)
        if self._socket is None:
            return CallResult.of(*await answer_of(self._actor.call.remote(envelopes), whose="handler"))
        try:
            answer = await self._socket.ask(envelopes)
        except NotSent as error:
            raise NotCalled from error
        except SocketLost as lost:
            raise ProcessDied(str(lost), may_live=True) from lost
        return CallResult.of(*pickle.loads(answer))  # noqa: S301 - ours

    def kill(self) -> None:
        """End the process at once."""
        import ray

        ray.kill(self._actor)
        self._lose(ProcessDied("the handler's process was killed by its worker"))

    def _lose(self, died: ProcessDied) -> None:
        if self._socket is not None:
            self._socket.lose(died)


async def answer_of(reference: Any, *, whose: str) -> Any:
    """Wait for the answer of a process of the user's code; `whose` is the handler or the run.

    errors:  ProcessDied  the process ended before it answered
    """
    import ray

    try:
        return await reference
    except ray.exceptions.RayError as error:  # not only RayActorError: the memory monitor's is none
        text = str(error)
        raise ProcessDied(sentence_of(text, whose=whose), may_live=not has_ended(text)) from error


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
