"""Connect and lease timers through the proxy, and wait for the effects of its faults and traps."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import asyncpg

from chaos.proxy import ProxiedConnection, Select, Trap
from shardclock_server.timers.model import ClaimedTimer
from tests.support.factories import BOUND_S, HolderClient, add_holder, add_timers

HOLDER = 11
BROKEN_OFF = (OSError, asyncpg.PostgresConnectionError, asyncpg.InterfaceError, asyncpg.InternalClientError)


@asynccontextmanager
async def connected(dsn: str, name: str = "mine", **more: Any) -> AsyncIterator[asyncpg.Connection]:
    connection = await asyncpg.connect(
        dsn, timeout=BOUND_S, command_timeout=BOUND_S, server_settings={"application_name": name}, **more
    )
    try:
        yield connection
    finally:
        connection.terminate()


@asynccontextmanager
async def during(fault: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """Keep a fault active for the length of a block."""
    task = asyncio.create_task(fault)
    await asyncio.sleep(0)  # the task of the fault begins now
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def catches(trap: Trap) -> ProxiedConnection:
    async with asyncio.timeout(BOUND_S):
        return await asyncio.shield(trap.caught)


async def in_time(work: asyncio.Task[Any]) -> Any:
    async with asyncio.timeout(BOUND_S):
        return await work


async def round_trips(connection: asyncpg.Connection, count: int = 20) -> None:
    """Wait for some round trips; all other tasks can run meanwhile."""
    async with asyncio.timeout(BOUND_S):
        for number in range(count):
            assert await connection.fetchval("select $1::integer", number) == number


def named(name: str) -> Select:
    return lambda link: link.application == name


@asynccontextmanager
async def holding(dsn: str, through: str, count: int = 1) -> AsyncIterator[tuple[HolderClient, list[ClaimedTimer]]]:
    """Lease due timers to a holder behind the proxy."""
    await add_holder(dsn, HOLDER)
    await add_timers(dsn, count)
    async with HolderClient(through, HOLDER) as hand:
        yield hand, (await hand.take()).claimed
