"""A process of the user's code that Ray starts: on this node, or on another.

Ray is imported where it is used: a worker in a user's test has no part of it, and need not wait a second for it.
"""

from typing import Any

import structlog

from shardclock.executor.actors import UserActor
from shardclock_server.workers.call_socket import CallSocket, connected
from shardclock_server.workers.ended import has_ended, sentence_of
from shardclock_server.workers.user_process import ProcessDied

# Of a Ray resource: ten thousand processes on a node that offers one.
LEAST_SHARE = 0.0001
BESIDE_CALLS = 2  # of an actor's concurrency: `gone`, and `listen` or `ready`


def start_actor(
    actor: type[UserActor],
    *given: object,
    calls_max: int,
    num_cpus: float | None,
    num_gpus: float | None = None,
    memory_mib: int | None,
    resource: str | None,
) -> Any:
    """Start an actor on this node, or wherever Ray has what is asked for.

    If there are nodes for workers alone, which offer `resource`, it runs on one of those.
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
        max_concurrency=calls_max + BESIDE_CALLS,
        scheduling_strategy="DEFAULT" if asks else here,
    )
    return options.remote(*given)


class RayProcess:
    """The process of a Ray actor."""

    def __init__(self, actor: Any, *, whose: str) -> None:
        self.whose = whose
        self._actor = actor

    async def connected(self) -> CallSocket | None:
        """Wait until the user's code is imported, and return the socket to it; None if it is on another host.

        errors:  ProcessDied  it can't be imported, or has ended
        """
        return await connected(await self._answer_of(self._actor.listen.remote()))

    async def ready(self) -> None:
        """Wait until the process shows that it is alive.

        errors:  ProcessDied  it has ended
        """
        await self._answer_of(self._actor.ready.remote())

    async def answer(self, call: bytes) -> bytes:
        """Call the process through Ray.

        errors:  ProcessDied  it ended before it answered
        """
        answer: bytes = await self._answer_of(self._actor.answer.remote(call))
        return answer

    async def gone(self) -> None:
        """Wait until the process has ended, which is told by an error alone.

        errors:  ProcessDied  it has ended
        """
        await self._answer_of(self._actor.gone.remote())

    def kill(self) -> None:
        """End the process at once; if Ray can't be reached, it is left without calls."""
        import ray

        try:
            ray.kill(self._actor)
        except Exception as error:  # noqa: BLE001 - the caller lets the process go, and must not stop half way
            structlog.get_logger().warning("process not killed", whose=self.whose, error=str(error))

    async def _answer_of(self, reference: Any) -> Any:
        import ray

        try:
            return await reference
        except ray.exceptions.RayError as error:  # not only RayActorError: the memory monitor's is none
            text = str(error)
            raise ProcessDied(sentence_of(text, whose=self.whose), may_live=not has_ended(text)) from error
