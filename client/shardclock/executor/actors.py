"""The classes of Ray actors that are executors.

The worker passes these classes to Ray, so this module does not import Ray.
"""

import asyncio
from typing import Protocol

from shardclock.executor.call_server import CallServer
from shardclock.executor.handlers import HandlerExecutor
from shardclock.executor.runs import RunExecutor


class LoadedApp(Protocol):
    """An imported app."""

    async def answer(self, call: bytes) -> bytes:
        """Answer a call; the arguments and the answer are pickled."""


class UserActor:
    """Answer calls, which arrive through a socket or, from another host, through Ray."""

    def __init__(self, executor: LoadedApp) -> None:
        self._executor = executor
        self._server = CallServer(executor.answer)

    async def listen(self) -> str | None:
        """Listen for the worker, and return the address, as `CallServer.listen` does, after the app's import."""
        return await self._server.listen()

    async def ready(self) -> None:
        """Return immediately, to prove that the process is alive and that its event loop is not blocked."""

    async def gone(self) -> None:
        """Never return, so that the worker's pending call fails when the process ends."""
        await asyncio.Event().wait()

    async def answer(self, call: bytes) -> bytes:
        """Answer a call; the arguments and the answer are pickled."""
        return await self._executor.answer(call)


class HandlerActor(UserActor):
    """Call one handler."""

    def __init__(self, modules: str, directory: str, target: str, calls_max: int, priority: int) -> None:
        super().__init__(HandlerExecutor(modules, directory, target, calls_max, priority))


class RunActor(UserActor):
    """Run the jobs of an app."""

    def __init__(self, modules: str, directory: str, priority: int) -> None:
        super().__init__(RunExecutor(modules, directory, priority))
