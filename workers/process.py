"""The process in which a handler runs, as its worker sees it."""

import pickle
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, Self

from shardclock import COMPLETED, Outcome
from shardclock.executor.actors import HandlerActor
from shardclock.executor.handlers import Envelope
from shardclock_server.sql.deliveries.claim import ClaimedDelivery
from shardclock_server.workers.handler import HandlerSpec
from shardclock_server.workers.local_process import LocalProcess
from shardclock_server.workers.ray_process import RayProcess, start_actor
from shardclock_server.workers.user_process import UserProcess


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


class CalledHandler(UserProcess):
    """A handler's process, called for deliveries."""

    async def call(self, deliveries: Sequence[ClaimedDelivery]) -> CallResult:
        """Call the handler for each delivery.

        errors:  NotCalled    for none of them: the socket is closed
                 ProcessDied  the process ended before it answered
        """
        # As bytes: Ray's own pickler asks Python about each object in them.
        envelopes = pickle.dumps([envelope_of(delivery) for delivery in deliveries], pickle.HIGHEST_PROTOCOL)
        return CallResult.of(*pickle.loads(await self.ask(envelopes)))  # noqa: S301 - ours


class RayHandlerProcess(CalledHandler):
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
        super().__init__(RayProcess(actor, whose="handler"))


class LocalHandlerProcess(CalledHandler):
    """One handler's process on this machine, a child of the worker."""

    def __init__(self, spec: HandlerSpec, *, modules: str, directory: str) -> None:
        policy = spec.policy
        order = ("handler", modules, directory, str(policy.priority), spec.target, str(spec.calls_max))
        super().__init__(LocalProcess(*order, whose="handler", num_cpus=policy.num_cpus))


def envelope_of(it: ClaimedDelivery) -> Envelope:
    """Return what a handler's process needs of a delivery."""
    return (
        it.timer_key, it.due_date, it.fired_at, it.occurrence, it.failed_attempts + 1, it.tenant_id, it.target,
        it.timer_type, it.name, it.schedule, it.target_element_id, it.process_instance_key, it.element_instance_key,
        it.payload,
    )  # fmt: skip
