"""The Ray actor in a process of the user's code.

It and its imports are all that such a process loads of the server (docs/decisions/0002-one-import-name.md).
"""

import asyncio

from shardclock_server.workers.call_socket import CallServer


class UserActor:
    """Answer calls, which come through a socket, or through Ray from another host."""

    def __init__(self) -> None:
        self._server = CallServer(self.answer)

    async def listen(self) -> str | None:
        """Listen for the worker, once the user's code is imported; return where, as `CallServer.listen` does."""
        return await self._server.listen()

    async def ready(self) -> None:
        """Answer: the process is alive, and nothing keeps its loop."""

    async def gone(self) -> None:
        """Never answer: the pending call fails when the process ends."""
        await asyncio.Event().wait()

    async def answer(self, call: bytes) -> bytes:
        """Answer a call; both are pickled."""
        raise NotImplementedError
