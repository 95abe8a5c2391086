"""The worker's interface to a handler's process."""

import pickle
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, Self

from shardclock import COMPLETED, Outcome
from shardclock.executor.actors import HandlerActor
from shardclock.executor.handlers import Envelope
from shardclock_server.sql.deliveries.claim import ClaimedDelivery
from shardclock_server.workers.handler import HandlerSpec
from shardclock_server.workers.interpreter import Interpreter
from shardclock_server.workers.local_process import LocalProcess
from shardclock_server.workers.ray_child import ChildActor
from shardclock_server.workers.ray_process import RayProcess, start_actor
from shardclock_server.workers.user_process import UserProcess


@dataclass(frozen=True, slots=True)
class CallResult:
    """The outcomes of the calls of one message.

    shape:   `outcomes` has at least one outcome: outcome n is the result of delivery n of the message; the remaining
             deliveries were not called
    units:   `took_s` is the total time of the calls in the handler, without waits inside the process
    """

    outcomes: Sequence[Outcome]
    took_s: float

    @classmethod
    def of(cls, outcomes: Sequence[Outcome | None], took_s: float) -> Self:
        """Parse the result of `HandlerCalls.call`."""
        return cls([COMPLETED if outcome is None else outcome for outcome in outcomes], took_s)


class HandlerProcess(Protocol):
    """A process that calls a handler."""

    async def call(self, deliveries: Sequence[ClaimedDelivery]) -> CallResult:
        """Call the handler for each delivery.

        errors:  NotCalled    the handler was not called.
                 ProcessDied  the process ended before it answered.
        """

    async def ready(self) -> None:
        """Wait until the user's code is imported. If the code is already imported, wait until the process answers.

        errors:  ProcessDied  the import failed, or the process has ended
        """

    async def gone(self) -> None:
        """Wait until the process has ended, then raise ProcessDied.

        errors:  ProcessDied  the process has ended
        """

    def kill(self) -> None:
        """Kill the process."""


class HandlerUserProcess(UserProcess):
    """A handler's process that is called over its socket or through Ray."""

    async def call(self, deliveries: Sequence[ClaimedDelivery]) -> CallResult:
        """Call the handler for each delivery.

        errors:  NotCalled    the socket is closed, and the handler was not called.
                 ProcessDied  the process ended before it answered.
        """
        # The envelopes are sent as bytes, because Ray's own pickler would inspect each object.
        envelopes = pickle.dumps([envelope_of(delivery) for delivery in deliveries], pickle.HIGHEST_PROTOCOL)
        return CallResult.of(*pickle.loads(await self.request(envelopes)))  # noqa: S301 - ours


class RayHandlerProcess(HandlerUserProcess):
    """A handler's process on this node, or on a node with the resources that the handler asks for.

    If `resource` is given, the node must offer this Ray resource, which marks the nodes for workers.
    """

    def __init__(
        self,
        spec: HandlerSpec,
        *,
        modules: str,
        directory: str,
        resource: str | None = None,
        python: Interpreter | None = None,
    ) -> None:
        policy = spec.policy
        actor = start_actor(
            *(
                (HandlerActor, modules, directory, spec.target, spec.calls_max, policy.priority)
                if python is None
                else (ChildActor, python, _order(spec, modules, directory), "handler", policy.num_cpus)
            ),
            calls_max=spec.calls_max,
            num_cpus=policy.num_cpus,
            memory_mib=policy.memory_mib,
            resource=resource,
        )
        super().__init__(RayProcess(actor, owner="handler"))


class LocalHandlerProcess(HandlerUserProcess):
    """A handler's process as a child of the worker."""

    def __init__(self, spec: HandlerSpec, *, modules: str, directory: str, python: Interpreter | None = None) -> None:
        order = _order(spec, modules, directory)
        super().__init__(LocalProcess(*order, owner="handler", num_cpus=spec.policy.num_cpus, python=python))


def _order(spec: HandlerSpec, modules: str, directory: str) -> tuple[str, ...]:
    """Return the arguments of `shardclock.executor`, without the descriptor of the socket."""
    return ("handler", modules, directory, str(spec.policy.priority), spec.target, str(spec.calls_max))


def envelope_of(it: ClaimedDelivery) -> Envelope:
    """Return the fields of a delivery that a handler's process needs."""
    return (
        it.timer_key, it.due_date, it.fired_at, it.occurrence, it.failed_attempts + 1, it.tenant_id, it.target,
        it.timer_type, it.name, it.schedule, it.target_element_id, it.process_instance_key, it.element_instance_key,
        it.payload,
    )  # fmt: skip
