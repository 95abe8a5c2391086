"""Kill, stop and lock Postgres, and use up its connections."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import asyncpg
import psutil

from chaos.faults.fault import BACK_S, Hit, NothingToBreak, until_postgres_answers
from chaos.sandbox import Sandbox
from chaos.waiting import UNAVAILABLE

LOCK_WAIT_S = 2.0


async def kill_backend(sandbox: Sandbox, chance: random.Random, _: float) -> Hit:
    """Kill one Postgres backend with -9, so that Postgres ends all other backends and recovers."""
    async with sandbox.admin() as admin:
        rows = await admin.fetch(
            "select pid, application_name from pg_stat_activity where application_name ~ '^(shardclock|chaos client)'"
        )
    victim = chance.choice(rows)
    os.kill(victim["pid"], signal.SIGKILL)
    await until_postgres_answers(sandbox)
    return Hit(ended_at=time.time(), detail={"backend": victim["application_name"]})


async def kill_postmaster(sandbox: Sandbox, _: random.Random, for_s: float) -> Hit:
    """Kill the postmaster with -9, and start Postgres again after a while."""
    async with _outage(sandbox, for_s) as process:
        process.kill()
    return Hit(ended_at=time.time())


async def stop_fast(sandbox: Sandbox, _: random.Random, for_s: float) -> Hit:
    """Stop Postgres as an operator does, and start it again after a while."""
    async with _outage(sandbox, for_s):
        await asyncio.to_thread(sandbox.postmaster.stop)
    return Hit(ended_at=time.time())


async def stop_immediate(sandbox: Sandbox, _: random.Random, for_s: float) -> Hit:
    """Stop Postgres without a checkpoint, and start it again after a while."""
    async with _outage(sandbox, for_s) as process:
        process.send_signal(signal.SIGQUIT)
        await asyncio.to_thread(process.wait, BACK_S)
    return Hit(ended_at=time.time())


@asynccontextmanager
async def _outage(sandbox: Sandbox, for_s: float) -> AsyncIterator[psutil.Process]:
    """Yield the running server, which the block must stop; start the server again after the block and a pause.

    No other fault stops the server before this restart.
    """
    process = sandbox.postmaster.process()
    if process is None or sandbox.outage.locked():
        raise NothingToBreak("Postgres is away already")
    async with sandbox.outage:
        yield process
        await asyncio.sleep(for_s)
        await sandbox.restart_postgres()


async def lock_table(sandbox: Sandbox, _: random.Random, for_s: float) -> Hit:
    """Lock the timers table exclusively, as a careless ALTER TABLE does.

    The fault begins with the request for the lock, because all later transactions wait behind the request. The request
    has a short timeout, because a reader's long transaction would otherwise delay the lock and all other transactions.
    """
    async with sandbox.admin() as admin, admin.transaction():
        began_at = time.time()
        await admin.execute(f"set local lock_timeout = {int(LOCK_WAIT_S * 1000)}")
        try:
            await admin.execute("lock table shardclock.timers in access exclusive mode")
        except asyncpg.LockNotAvailableError:
            return Hit(began_at=began_at, ended_at=time.time(), detail={"locked": False})
        await asyncio.sleep(for_s)
    return Hit(began_at=began_at, ended_at=time.time())


async def hold_snapshot(sandbox: Sandbox, _: random.Random, for_s: float) -> Hit:
    """Keep a reader's snapshot open, so that vacuum can't remove dead rows."""
    async with sandbox.admin() as admin, admin.transaction(isolation="repeatable_read", readonly=True):
        await admin.fetchval("select count(*) from shardclock.timers")
        await asyncio.sleep(for_s)
    return Hit()


async def use_up_connections(sandbox: Sandbox, _: random.Random, for_s: float) -> Hit:
    """Open connections until Postgres refuses more."""
    async with AsyncExitStack() as taken:
        count = 0
        while True:
            try:
                connection = await asyncpg.connect(
                    sandbox.direct_dsn, timeout=5, server_settings={"application_name": "chaos crowd"}
                )
            except UNAVAILABLE:
                break
            taken.callback(connection.terminate)
            count += 1
        await asyncio.sleep(for_s)
    return Hit(detail={"taken": count})
