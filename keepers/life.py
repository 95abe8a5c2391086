"""Start, watch and drain a keeper in its own process: an actor of Ray or a local process. The code decides nothing."""

import asyncio
import os
import secrets
import socket
from typing import Protocol

from shardclock_server.keepers.collector import collect_seldom
from shardclock_server.sql.cluster.holders import Incarnation

LEAVE_S = 0.5  # The time from a keeper's failure to the exit of its process, so that `watch` can report the error.
HOLDER_BITS = 63  # A holder is a positive bigint, drawn anew at each start.


class LongRunning(Protocol):
    """The interface of a keeper: `run` works until a drain, and raises an error if it can't continue."""

    holder: int

    async def run(self) -> None:
        """Work until drained.

        errors:  HolderEnded  a coordinator has ended this holder
        """

    async def drain(self) -> None:
        """Ask `run` to stop its work and to release its leases."""


class Life:
    """Start, watch and drain the only keeper of a process; a new process gets a new keeper with a new holder."""

    def __init__(self, keeper: LongRunning) -> None:
        self._keeper = keeper
        self._work: asyncio.Task[None] | None = None

    def start(self) -> int:
        """Start the keeper unless an earlier call has started it; return its holder."""
        if self._work is None:
            collect_seldom()
            self._work = asyncio.create_task(self._keeper.run(), name="keeper")
            self._work.add_done_callback(_leave_if_failed)
        return self._keeper.holder

    async def watch(self) -> None:
        """Wait until the keeper has drained; raise the keeper's error if it fails.

        If an actor dies, Ray lets its pending call of this method fail.

        errors:  HolderEnded  a coordinator has ended this holder
        """
        self.start()
        assert self._work is not None
        await asyncio.shield(self._work)

    async def drain(self) -> int:
        """Accept no new work, finish the running work, end the holder, and return the holder's number.

        A drain takes a few seconds.
        """
        await self._keeper.drain()
        if self._work is not None:
            await asyncio.wait([self._work])
        return self._keeper.holder


def new_incarnation(role: str, cluster_id: str, actor_name: str, *, identity: str, node_id: str) -> Incarnation:
    """Create a keeper's incarnation in this process; its holder is a new random number."""
    return Incarnation(
        holder=secrets.randbits(HOLDER_BITS),
        cluster_id=cluster_id,
        actor_name=actor_name,
        node_id=node_id,
        host=socket.gethostname(),
        pid=os.getpid(),
        identity=identity,
        role=role,
    )


def _leave_if_failed(work: "asyncio.Task[None]") -> None:
    """Exit this process when its keeper has failed or ended, even if no coordinator is running."""
    if not work.cancelled() and work.exception() is not None:
        asyncio.get_running_loop().call_later(LEAVE_S, os._exit, 1)
