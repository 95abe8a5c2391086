"""An engine's first batch is small, and one statement reads at most 32 MiB of signals."""

from __future__ import annotations

import json

import pytest
import structlog

from shardclock_server.engine.runner import BATCH_FIRST, SignalRunner
from shardclock_server.engine.stats import EngineStats
from shardclock_server.service import processes
from shardclock_server.sql.processes.signals import TAKEN_BYTES_MAX, DueSignal, read_due_signals
from shardclock_server.sql.session import Session
from tests.support.bpmn import model
from tests.support.factories import add_holder, query

MIB = 2**20
COUNT = 100
INSTANCES = """
    insert into shardclock.instances (instance_key, definition_key, version, tenant_id, process_id, state)
    select n, 1, 1, 'default', 'p', $2 from generate_series(1, $1::integer) n
"""
SIGNALS = """
    select shardclock.send_signal(n, 'default', $2::jsonb, 2) from generate_series(1, $1::integer) n
"""
USER = '<startEvent id="s"/><userTask id="u"/>'


def size_of(taken: list[DueSignal]) -> int:
    return sum(len(it.signal or "") + len(it.state or "") for it in taken)


@pytest.mark.parametrize(
    ("state", "payload"),
    [
        ("x" * 1_000_000, "{}"),
        ("{}", json.dumps({"a": "x" * 1_000_000})),
        ("{}", '{"a": [1e100000, 1e100000, 1e100000, 1e100000, 1e100000, 1e100000, 1e100000, 1e100000, 1e100000]}'),
    ],
    ids=["states", "payloads", "long numbers"],
)
async def test_one_statement_reads_at_most_32_mib_of_signals(dsn: str, state: str, payload: str) -> None:
    await add_holder(dsn, 1, 0, 1)
    await query(dsn, INSTANCES, COUNT, state)
    await query(dsn, SIGNALS, COUNT, payload)
    async with Session(dsn, application="test", timeout_s=30) as session:
        taken = (await read_due_signals(session, 1, batch=500)).signals
        assert TAKEN_BYTES_MAX - MIB < size_of(taken) < TAKEN_BYTES_MAX + MIB
        without = [it.instance_key for it in taken]
        rest = (await read_due_signals(session, 1, batch=500, without=without)).signals
        assert [it.instance_key for it in taken + rest] == list(range(1, len(taken + rest) + 1))


async def test_a_new_engine_begins_with_a_small_batch_and_doubles_it(dsn: str) -> None:
    await add_holder(dsn, 1, 0, 1)
    async with Session(dsn, application="test") as session, Session(dsn, application="engine") as steps:
        await processes.deploy(session, model(USER, connected="s>u"), resource="p.bpmn")
        for _ in range(COUNT):
            await processes.start(session, "p")
        stats, seen = EngineStats(), []
        runner = SignalRunner(steps, 1, stats, batch=40, log=structlog.get_logger())
        while await runner.turn():
            seen.append(stats.begun)
    assert seen == [BATCH_FIRST, 3 * BATCH_FIRST, 3 * BATCH_FIRST + 40, COUNT]
