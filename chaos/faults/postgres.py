"""Postgres killed, stopped, locked, crowded."""

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

from chaos.away import AWAY
from chaos.faults.fault import BACK_S, Hit, NothingToBreak, until_postgres_answers
from chaos.stage import Stage

LOCK_WAIT_S = 2.0


async def kill_backend(stage: Stage, chance: random.Random, _: float) -> Hit:
    """Kill one Postgres backend with -9, which makes Postgres end all others and recover."""
    async with stage.admin() as admin:
        rows = await admin.fetch(
            "select pid, application_name from pg_stat_activity where application_name ~ '^(shardclock|chaos client)'"
        )
    victim = chance.choice(rows)
    os.kill(victim["pid"], signal.SIGKILL)
    await until_postgres_answers(stage)
    return Hit(ended_at=time.time(), detail={"backend": victim["application_name"]})


async def kill_postmaster(stage: Stage, _: random.Random, for_s: float) -> Hit:
    """Kill the postmaster with -9, and start Postgres again after a while."""
    async with _outage(stage, for_s) as process:
        process.kill()
    return Hit(ended_at=time.time())


async def stop_fast(stage: Stage, _: random.Random, for_s: float) -> Hit:
    """Stop Postgres as an operator does, and start it again after a while."""
    async with _outage(stage, for_s):
        await asyncio.to_thread(stage.postmaster.stop)
    return Hit(ended_at=time.time())


async def stop_immediate(stage: Stage, _: random.Random, for_s: float) -> Hit:
    """Stop Postgres without a checkpoint, and start it again after a while."""
    async with _outage(stage, for_s) as process:
        process.send_signal(signal.SIGQUIT)
        await asyncio.to_thread(process.wait, BACK_S)
    return Hit(ended_at=time.time())


@asynccontextmanager
async def _outage(stage: Stage, for_s: float) -> AsyncIterator[psutil.Process]:
    """Lend the server to be stopped, and start it again after a while; nobody else stops it before it is up."""
    process = stage.postmaster.process()
    if process is None or stage.outage.locked():
        raise NothingToBreak("Postgres is away already")
    async with stage.outage:
        yield process
        await asyncio.sleep(for_s)
        await stage.restart_postgres()


async def lock_table(stage: Stage, _: random.Random, for_s: float) -> Hit:
    """Lock the timers' table against everybody, as a careless ALTER TABLE does.

    It begins when the lock is asked for: while it waits for a reader that was there before, all others wait behind it.
    A reader that stays for a minute would make a minute's standstill of a lock of seconds, so it waits briefly.
    """
    async with stage.admin() as admin, admin.transaction():
        began_at = time.time()
        await admin.execute(f"set local lock_timeout = {int(LOCK_WAIT_S * 1000)}")
        try:
            await admin.execute("lock table shardclock.timers in access exclusive mode")
        except asyncpg.LockNotAvailableError:
            return Hit(began_at=began_at, ended_at=time.time(), detail={"locked": False})
        await asyncio.sleep(for_s)
    return Hit(began_at=began_at, ended_at=time.time())


async def hold_snapshot(stage: Stage, _: random.Random, for_s: float) -> Hit:
    """Keep a reader's snapshot open, so that no dead row can be cleared away."""
    async with stage.admin() as admin, admin.transaction(isolation="repeatable_read", readonly=True):
        await admin.fetchval("select count(*) from shardclock.timers")
        await asyncio.sleep(for_s)
    return Hit()


async def use_up_connections(stage: Stage, _: random.Random, for_s: float) -> Hit:
    """Take every connection that is left."""
    async with AsyncExitStack() as taken:
        count = 0
        while True:
            try:
                connection = await asyncpg.connect(
                    stage.direct_dsn, timeout=5, server_settings={"application_name": "chaos crowd"}
                )
            except AWAY:
                break
            taken.callback(connection.terminate)
            count += 1
        await asyncio.sleep(for_s)
    return Hit(detail={"taken": count})
