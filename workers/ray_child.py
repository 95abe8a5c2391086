"""A process of the user's code below a Ray actor, for an app with its own Python.

The actor does not run the user's code, because Ray can start actors only with the server's Python. The actor reserves
the resources, and starts the app's Python as a child process (`local_process`). Calls over the socket go directly to
the child; calls through Ray go through the actor. When the actor ends, the kernel kills the child.
"""

from collections.abc import Sequence

from shardclock.executor.frames import LISTEN
from shardclock_server.workers.interpreter import Interpreter
from shardclock_server.workers.local_process import LocalProcess
from shardclock_server.workers.user_process import ProcessDied, UserProcess


class ChildActor:
    """Start an executor with another Python at the first call; this class has the same methods as `UserActor`."""

    def __init__(self, python: Interpreter, order: Sequence[str], owner: str, num_cpus: float | None) -> None:
        self._order = (python, order, owner, num_cpus)
        self._child: UserProcess | None = None

    async def listen(self) -> str | None:
        """Wait until the child has imported the app, and return the address at which the child listens for the worker.

        errors:  ProcessDied  the child does not start, or has ended
        """
        child = self._begun()
        await child.ready()
        return (await child.request(LISTEN)).decode() or None

    async def ready(self) -> None:
        """Wait until the child answers.

        errors:  ProcessDied  the child has ended
        """
        await self._begun().ready()

    async def gone(self) -> None:
        """Wait until the child has ended, then raise ProcessDied.

        errors:  ProcessDied  the child has ended
        """
        await self._begun().gone()

    async def answer(self, call: bytes) -> bytes:
        """Send a call to the child.

        errors:  NotCalled    the child's socket is closed.
                 ProcessDied  the child ended before it answered.
        """
        return await self._begun().request(call)

    def _begun(self) -> UserProcess:
        # The constructor can't start the child, because Ray's event loop does not run yet.
        if self._child is None:
            python, order, owner, num_cpus = self._order
            try:
                started = LocalProcess(*order, owner=owner, num_cpus=num_cpus, python=python)
            except OSError as error:
                raise ProcessDied(f"the {owner}'s process does not start: {python.program}: {error.strerror}") from None
            self._child = UserProcess(started)
        return self._child
