"""Measure the cost of a million waiting instances, and how much they slow down other instances."""

import asyncio
import time

from benchmarks.cases.case import Case, Figure, Figures, NotForIt, Part, memory_of
from benchmarks.cases.lives import Engines, live_through
from benchmarks.contenders.contender import Contender
from benchmarks.contenders.ours import PATIENCE_S
from benchmarks.postgres import connected, settle

WAITING, AT_ONCE = 1_000_000, 1_000
LIVES = 10_000
AHEAD_MAX = 20_000  # the limit of starts that wait for an engine at the same time
WITHIN_S = 1_800.0
START = "select count(shardclock.start_process('waiting')) from generate_series(1, $1::integer)"
AHEAD = """
    select (select count(*) from (select from shardclock.deliveries limit $1::integer) d)
        + (select count(*) from (select from shardclock.timers t where t.due_date <= now() limit $1::integer) t)
"""
STATE = """
    select avg(octet_length(i.state)) from shardclock.instances i where i.ended_at is null and i.process_id = 'waiting'
"""
HELD = "select count(*) from shardclock.tasks t where t.completed_at is null"


async def measure(contender: Contender) -> Figures:
    """Run some instances, start a million instances that wait, then run the same number of instances again."""
    assert isinstance(contender, Engines)
    await contender.start()
    await live_through(contender, AT_ONCE)  # a warm-up of Postgres's plans and of the Python code
    await settle(contender.dsn)
    alone_s, alone = await live_through(contender, LIVES), memory_of(contender)
    started_s = await _start_those_that_wait(contender)
    await settle(contender.dsn)
    beside_s, beside = await live_through(contender, LIVES), memory_of(contender)
    async with connected(contender.dsn) as connection:
        state = float(await connection.fetchval(STATE, timeout=PATIENCE_S))
    return {
        "starts_per_s": WAITING / started_s,
        "state": state,
        "alone_per_s": LIVES / alone_s,
        "beside_per_s": LIVES / beside_s,
        "alone_rss": alone["rss"],
        "beside_rss": beside["rss"],
    }


async def _start_those_that_wait(contender: Engines) -> float:
    """Start instances, and wait until each instance waits at its task; return the duration."""
    began_s = time.monotonic()
    async with connected(contender.dsn) as connection:

        async def until_fewer_than(ahead: int) -> None:
            while await connection.fetchval(AHEAD, ahead, timeout=PATIENCE_S) >= ahead:
                if time.monotonic() > began_s + WITHIN_S:
                    raise NotForIt(f"not all had started within {WITHIN_S:.0f} s")
                await asyncio.sleep(0.05)

        for _ in range(0, WAITING, AT_ONCE):
            await connection.execute(START, AT_ONCE, timeout=PATIENCE_S)
            await until_fewer_than(AHEAD_MAX)
        await until_fewer_than(1)
        held = await connection.fetchval(HELD, timeout=PATIENCE_S)
        if held != WAITING:
            raise NotForIt(f"{held:,} of {WAITING:,} wait at their tasks")
    return time.monotonic() - began_s


CASE = Case(
    "waiting",
    "A million processes that wait",
    f"{WAITING:,} instances of a BPMN process are started in SQL, and wait at a task for thirty days. The figures are"
    " the number of instances a second that reach the task, and the bytes of state of an instance. Before the"
    f" start of these instances, and again while they wait, {LIVES:,} other instances (as in `Processes`) start and"
    " complete. The figures are the completed instances a second, and the memory of an engine afterwards.",
    (
        Part(
            "",
            (
                Figure("starts_per_s", "instances that reach the task, a second", "cps", more_is_better=True),
                Figure("state", "state of an instance", "bytes"),
                Figure("alone_per_s", "completed a second, before", "cps", more_is_better=True),
                Figure("beside_per_s", "completed a second, beside", "cps", more_is_better=True),
                Figure("alone_rss", "memory of an engine, before", "bytes"),
                Figure("beside_rss", "memory of an engine, beside", "bytes"),
            ),
        ),
    ),
    lambda: [Engines()],
    measure,
)
