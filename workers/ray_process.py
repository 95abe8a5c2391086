"""A process of the user's code that Ray starts on this node or on another node.

Ray is imported inside the functions, because the import takes a second and a worker in a user's test needs no Ray.
"""

from typing import Any

import structlog

from shardclock_server.workers.call_socket import CallSocket, connected
from shardclock_server.workers.process_exit import describe_ray_error, ray_saw_end
from shardclock_server.workers.user_process import NotCalled, ProcessDied

# The amount of a Ray resource that one process reserves, so that a node with an amount of 1 can run 10,000 processes.
LEAST_SHARE = 0.0001
EXTRA_CALLS = 2  # calls that an actor serves in addition to the user's calls: `gone`, and `listen` or `ready`


def start_actor(
    actor: Any,
    *given: object,
    calls_max: int,
    num_cpus: float | None,
    num_gpus: float | None = None,
    memory_mib: int | None,
    resource: str | None,
) -> Any:
    """Start an actor on this node, or on a node with the resources.

    If `resource` is given, the node must offer this Ray resource, which marks the nodes for workers.
    """
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    asks = (num_cpus, num_gpus, memory_mib) != (None, None, None)
    here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=True)
    options = ray.remote(actor).options(
        num_cpus=num_cpus or 0,
        num_gpus=num_gpus or 0,
        memory=memory_mib and memory_mib * 2**20,
        resources={resource: LEAST_SHARE} if resource else None,
        max_concurrency=calls_max + EXTRA_CALLS,
        scheduling_strategy="DEFAULT" if asks else here,
    )
    return options.remote(*given)


class RayProcess:
    """The process of a Ray actor."""

    def __init__(self, actor: Any, *, owner: str) -> None:
        self.owner = owner
        self._actor = actor

    async def connected(self) -> CallSocket | None:
        """Wait until the user's code is imported, and return the socket; None if the process is on another host.

        errors:  ProcessDied  the import failed, or the process has ended
        """
        return await connected(await self._answer_of(self._actor.listen.remote()))

    async def ready(self) -> None:
        """Wait until the process answers.

        errors:  ProcessDied  the process has ended
        """
        await self._answer_of(self._actor.ready.remote())

    async def answer(self, call: bytes) -> bytes:
        """Call the process through Ray.

        errors:  ProcessDied  the process ended before it answered
        """
        answer: bytes = await self._answer_of(self._actor.answer.remote(call))
        return answer

    async def gone(self) -> None:
        """Wait until the process has ended, then raise ProcessDied.

        errors:  ProcessDied  the process has ended
        """
        await self._answer_of(self._actor.gone.remote())

    def kill(self) -> None:
        """Kill the process; if Ray can't be reached, the process continues, but gets no more calls."""
        import ray

        try:
            ray.kill(self._actor)
        except Exception as error:  # noqa: BLE001 - an error here must not stop the caller's next steps
            structlog.get_logger().warning("process not killed", owner=self.owner, error=str(error))

    async def _answer_of(self, reference: Any) -> Any:
        import ray

        try:
            return await reference
        except ray.exceptions.RayError as error:  # the memory monitor's error is not a RayActorError
            if isinstance(told := getattr(error, "cause", None), ProcessDied | NotCalled):
                self.kill()  # the child has ended, and its actor still reserves resources
                raise told from None
            text = str(error)
            raise ProcessDied(describe_ray_error(text, owner=self.owner), may_live=not ray_saw_end(text)) from error
