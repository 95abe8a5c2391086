"""Run keepers as plain processes, without Ray and coordinator, and start dead keepers again."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from chaos.waiting import POLL_S, UNAVAILABLE, connected, until
from tests.support.factories import query
from tests.support.separate_keeper import SeparateKeeper
from tests.support.shard_pool import incarnation

AGAIN_S = 1.0  # The pause before the restart of a dead keeper.
START_S = 60.0
SERVES = "select exists (select from shardclock.presence where holder = $1 and seen_at > started_at)"
REGISTER = """
    with registered as (
        insert into shardclock.holders (holder, role, cluster_id, actor_name, node_id, host, pid, part, part_count)
        values ($1, $2, 'test', 'test', 'test', 'test', 1, $3, $4) returning holder
    )
    insert into shardclock.beats (holder) select holder from registered
"""
IS_PID = "update shardclock.holders set pid = $2 where holder = $1"
END = """
    update shardclock.holders
    set ended_at = now(), ended_why = 'dead', part = null, part_count = null
    where holder = $1 and ended_at is null
"""


class KeeperPool:
    """Runs a number of keepers of a role, and starts a dead keeper again after a pause.

    `spawn` starts the process of a holder.
    """

    def __init__(self, role: str, count: int, spawn: Callable[[int], SeparateKeeper]) -> None:
        self._role, self._count, self._spawn = role, count, spawn
        self.running: dict[int, SeparateKeeper] = {}
        self._zombies: list[SeparateKeeper] = []
        self._tasks: list[asyncio.Task[None]] = []
        self._direct_dsn = ""

    async def start(self, direct_dsn: str) -> None:
        """Start all keepers, each with its assignment."""
        self._direct_dsn = direct_dsn
        for part in range(self._count):
            await self._start(part)
        self._tasks.append(asyncio.create_task(self._keep()))

    def stop(self) -> None:
        """Kill all keepers."""
        for task in self._tasks:
            task.cancel()
        for process in [*self.running.values(), *self._zombies]:
            process.kill()

    def has(self, holder: int) -> bool:
        """Return whether a holder is one of these keepers."""
        return any(process.holder == holder for process in self.running.values())

    async def start_successor(self, holder: int) -> None:
        """Start a second keeper for the slots of a running keeper, and wait until the second keeper serves.

        errors:  LookupError  another fault has ended the new keeper before its first heartbeat
        """
        part = next(part for part, process in self.running.items() if process.holder == holder)
        self._zombies.append(self.running.pop(part))
        await self._start(part)
        successor = self.running[part]

        async def serves_or_ended() -> bool:
            # Each check opens a new connection, because Postgres may be unavailable during the wait.
            async with connected(self._direct_dsn) as admin:
                return successor.has_ended() or bool(await admin.fetchval(SERVES, successor.holder))

        if not await until(serves_or_ended, within_s=START_S) or successor.has_ended():
            raise LookupError(f"{self._role} {successor.holder:x} does not serve")

    async def _start(self, part: int) -> None:
        holder = incarnation().holder
        await query(self._direct_dsn, REGISTER, holder, self._role, part, self._count)
        process = self._spawn(holder)
        try:
            async with connected(self._direct_dsn) as admin:
                await admin.execute(IS_PID, holder, process.pid)
        except BaseException:
            process.kill()
            raise
        self.running[part] = process

    async def _keep(self) -> None:
        while True:
            await asyncio.sleep(POLL_S)
            for part, process in list(self.running.items()):
                if process.has_ended():
                    del self.running[part]
                    self._tasks.append(asyncio.create_task(self._start_again(part, process)))

    async def _start_again(self, part: int, dead: SeparateKeeper) -> None:
        """Declare a keeper dead, which frees its claims, and start another keeper; retry until the start succeeds."""
        await asyncio.sleep(AGAIN_S)
        while True:
            try:
                async with connected(self._direct_dsn) as admin:
                    await admin.execute(END, dead.holder)
                await self._start(part)
            except UNAVAILABLE:
                await asyncio.sleep(POLL_S)
            else:
                return
