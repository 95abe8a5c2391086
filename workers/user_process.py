"""A process of the user's code as its worker sees it: a Ray actor that the worker starts, calls and ends.

Ray is imported where it is used: a worker in a user's test has no part of it, and need not wait a second for it.
"""

from typing import Any

import structlog

from shardclock.executor.actors import UserActor
from shardclock_server.workers.call_socket import CallSocket, NotSent, SocketLost, connected
from shardclock_server.workers.ended import has_ended, sentence_of

# Of a Ray resource: ten thousand processes on a node that offers one.
LEAST_SHARE = 0.0001
BESIDE_CALLS = 2  # of an actor's concurrency: `gone`, and `listen` or `ready`


class ProcessDied(Exception):
    """A process of the user's code is gone; the message says how it ended, as far as that is known.

    `may_live`: only a connection to it is known to be lost, or it has answered that it failed.
    """

    def __init__(self, how: str, *, may_live: bool = False) -> None:
        super().__init__(how)
        self.may_live = may_live


class NotCalled(Exception):
    """The process can't be reached any more, and was not when it was to be called: nothing was called."""


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


class UserProcess:
    """The worker's end; `whose` process it is, a handler's or a run's, stands in what it says of its end."""

    def __init__(self, actor: Any, *, whose: str) -> None:
        self._actor = actor
        self._whose = whose
        self._is_up = False
        self._socket: CallSocket | None = None  # on another node there is none, and Ray carries the calls

    @property
    def is_reached(self) -> bool:
        """Say whether there is a socket to it, which is open."""
        return self._socket is not None and self._socket.is_open

    async def ready(self) -> None:
        """Wait until the user's code is imported; later, until the process shows that it is alive.

        errors:  ProcessDied  it can't be imported, or has ended
        """
        if self._is_up:
            await self._answer_of(self._actor.ready.remote())
            return
        address = await self._answer_of(self._actor.listen.remote())
        self._socket = await connected(address)
        self._is_up = True
        if self._socket is None:
            why = "its process can't be reached by a socket"
            structlog.get_logger().info(f"{self._whose} called through Ray", why=why)

    async def gone(self) -> None:
        """Wait until the process has ended, which is told by an error alone; calls of it fail then, too.

        errors:  ProcessDied  it has ended
        """
        try:
            await self._answer_of(self._actor.gone.remote())
        except ProcessDied as died:
            # What the user's code has forked may keep the socket open.
            self._lose(died)
            raise

    async def ask(self, call: bytes) -> bytes:
        """Call the process.

        errors:  NotCalled    its socket is closed
                 ProcessDied  it ended before it answered
        """
        if self._socket is None:
            answer: bytes = await self._answer_of(self._actor.answer.remote(call))
            return answer
        try:
            return await self._socket.ask(call)
        except NotSent as error:
            raise NotCalled from error
        except SocketLost as lost:
            raise ProcessDied(f"the {self._whose}'s process {lost}", may_live=True) from lost

    def kill(self) -> None:
        """End the process at once; if Ray can't be reached, it is left, and nobody calls it any more."""
        import ray

        try:
            ray.kill(self._actor)
        except Exception as error:  # noqa: BLE001 - whatever Ray says, who lets a process go must not stop half way
            structlog.get_logger().warning("process not killed", whose=self._whose, error=str(error))
        self._lose(ProcessDied(f"the {self._whose}'s process was killed by its worker"))

    async def _answer_of(self, reference: Any) -> Any:
        import ray

        try:
            return await reference
        except ray.exceptions.RayError as error:  # not only RayActorError: the memory monitor's is none
            text = str(error)
            raise ProcessDied(sentence_of(text, whose=self._whose), may_live=not has_ended(text)) from error

    def _lose(self, died: ProcessDied) -> None:
        if self._socket is not None:
            self._socket.lose(died)
