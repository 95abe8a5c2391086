"""Prove that the recorder reads all commits from the slot in their order, including an engine's commits."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, TypeVar

import asyncpg
import pytest

from chaos import recorder as recording
from chaos.clusters import ProcessCluster
from chaos.history.changes import (
    SIGNAL,
    Commit,
    DeliveryDeleted,
    DeliveryWritten,
    HolderWritten,
    InstanceStepped,
    InstanceWritten,
    LeaderWritten,
    Recorded,
    TaskDeleted,
    TaskWritten,
    TimerDeleted,
    TimerWritten,
)
from chaos.keeper_pool import REGISTER
from chaos.process_models import PROCESSES
from chaos.recorder import COLUMNS, Recorder
from chaos.sandbox import sandbox_for
from chaos.waiting import UNAVAILABLE
from shardclock_server.engine.settings import EngineSettings
from shardclock_server.engine.stepped import SteppedEngine
from shardclock_server.service import processes
from shardclock_server.sql.cluster.holders import ENGINE
from shardclock_server.sql.processes import instances, tasks
from shardclock_server.sql.session import Session
from tests.support.deliveries import HANDLER, deliver, done, failed, serving_worker
from tests.support.factories import BOUND_S, HolderClient, add_holder, add_schedule, add_timers, query
from tests.support.shard_pool import incarnation
from tests.support.sql_client import call, schedule

HOLDER = 2**63 - 1
ODD = "Müller’s 注文 \\ \" ' 🕰"
LAST_DATE = "'9999-12-30 23:59:59.999999+00'"
FIRST_DATE = "'0001-01-01 00:00:00+00'"
MOMENT = datetime(2031, 1, 1, 0, 0, 0, 500_000, UTC)
T = TypeVar("T")


@asynccontextmanager
async def recorded(dsn: str) -> AsyncIterator[Recorder]:
    """Record the commits of a block; the recorder reads them at the end of the block."""
    recorder = Recorder(dsn)
    await recorder.start()
    yield recorder
    async with asyncio.timeout(BOUND_S):
        await recorder.drain()


def changes(recorder: Recorder, kind: type[T]) -> list[T]:
    return [change for commit in recorder.commits for change in commit.changes if isinstance(change, kind)]


def new_keys(recorder: Recorder) -> list[int]:
    return [change.timer_key for change in changes(recorder, TimerWritten) if change.new]


async def rows_of(dsn: str, table: str) -> list[asyncpg.Record]:
    """Read a table in the format of the replication slot: the same columns, and JSON as text."""
    columns = COLUMNS[table].replace("payload", "payload::text").replace("detail", "detail::text")
    columns = columns.replace("paused_due_date", "paused_due_date is not null as paused")
    return await query(dsn, f"select {columns} from shardclock.{table} order by 1, 2")


def timers_left(commits: list[Commit]) -> Iterator[tuple[Any, ...]]:
    """Apply the changes, and return the remaining rows."""
    left: dict[int, TimerWritten] = {}
    for commit in commits:
        for change in commit.changes:
            if isinstance(change, TimerWritten):
                assert change.new == (change.timer_key not in left)
                left[change.timer_key] = change
            elif isinstance(change, TimerDeleted):
                del left[change.timer_key]
    return (tuple(left[key])[1:] for key in sorted(left))


async def test_transactions_are_recorded_in_the_order_of_their_commits(dsn: str) -> None:
    early, late = await add_timers(dsn, 2, due="now() + interval '1 hour'")

    async with recorded(dsn) as recorder, HolderClient(dsn) as one, HolderClient(dsn) as other:
        await one.begin()
        await one.cancel(timer_key=early)  # the cancellation draws the next position of the log
        await other.cancel(timer_key=late)
        await one.commit()

    records = changes(recorder, Recorded)
    assert [record.timer_key for record in records] == [late, early]
    assert records[0].position > records[1].position, "the positions have another order"
    assert recorder.commits[0].lsn < recorder.commits[1].lsn
    assert recorder.commits[0].committed_at <= recorder.commits[1].committed_at


async def test_a_rolled_back_change_is_not_recorded(dsn: str) -> None:
    async with recorded(dsn) as recorder, HolderClient(dsn) as hand:
        await hand.begin()
        await schedule(hand)
        await hand.rollback()

        await hand.begin()
        kept = await schedule(hand)
        await hand.connection.execute("savepoint half")
        await schedule(hand)
        await hand.connection.execute("rollback to half")
        await hand.commit()

    assert new_keys(recorder) == [kept]
    assert len(recorder.commits) == 1


async def test_a_commit_before_the_start_is_not_recorded(dsn: str) -> None:
    await add_timers(dsn, 1)

    async with recorded(dsn) as recorder:
        (key,) = await add_timers(dsn, 1)

    assert new_keys(recorder) == [key]


async def test_a_claim_is_an_update_with_its_holder_and_its_end(dsn: str) -> None:
    await add_holder(dsn, HOLDER)
    keys = await add_timers(dsn, 2)

    async with recorded(dsn) as recorder, HolderClient(dsn, HOLDER) as hand:
        await hand.take()

    (commit,) = recorder.commits
    claims = changes(recorder, TimerWritten)
    assert sorted(claim.timer_key for claim in claims) == keys
    assert {(claim.new, claim.claimed_by) for claim in claims} == {(False, HOLDER)}
    assert all(claim.claimed_until and 9.0 < _after(commit, claim) < 11.0 for claim in claims)


def _after(commit: Commit, claim: TimerWritten) -> float:
    assert claim.claimed_until is not None
    return (claim.claimed_until - commit.committed_at).total_seconds()


async def test_a_firing_deletes_appends_and_inserts_the_next_occurrence_in_one_commit(dsn: str) -> None:
    await add_holder(dsn, HOLDER)
    key = await add_schedule(dsn)

    async with HolderClient(dsn, HOLDER) as hand:
        timers = (await hand.take()).claimed
        async with recorded(dsn) as recorder:
            await hand.fire(timers)

    (commit,) = recorder.commits
    assert {type(change) for change in commit.changes} == {TimerDeleted, TimerWritten, Recorded}
    assert len(commit.changes) == 3
    assert changes(recorder, TimerDeleted) == [TimerDeleted(key)]
    (record,), (follower,) = changes(recorder, Recorded), changes(recorder, TimerWritten)
    assert (record.timer_key, record.intent, record.occurrence, record.holder) == (key, "TRIGGERED", 1, HOLDER)
    assert (follower.new, follower.occurrence, follower.name) == (True, 2, "beat")
    assert follower.timer_key != key


async def test_a_delivery_is_recorded_from_its_firing_to_its_end(dsn: str) -> None:
    await add_holder(dsn, HOLDER)

    async with recorded(dsn) as recorder, HolderClient(dsn, HOLDER) as shard, serving_worker(dsn, 7) as worker:
        (key,) = await deliver(shard)
        (first,) = await worker.take()
        await worker.settle(failed(first, delay_s=0.0))
        (second,) = await worker.take()
        await worker.settle(done(second))

    rows = [(row.new, row.claimed_by, row.claims, row.failed_attempts) for row in changes(recorder, DeliveryWritten)]
    assert rows == [(True, None, 0, 0), (False, 7, 1, 0), (False, None, 1, 1), (False, 7, 2, 1)]
    assert changes(recorder, DeliveryDeleted) == [DeliveryDeleted(key)]
    records = [(record.intent, record.target, record.holder) for record in changes(recorder, Recorded)]
    assert records == [("TRIGGERED", HANDLER, HOLDER), ("DELIVERED", HANDLER, 7)]


async def test_the_recording_equals_the_tables(dsn: str) -> None:
    async with recorded(dsn) as recorder:
        await add_holder(dsn, HOLDER)
        await add_holder(dsn, -HOLDER, part=None, part_count=None)
        await query(dsn, "update shardclock.holders set suspended_at = now() where holder = $1", HOLDER)
        await query(
            dsn, "update shardclock.holders set ended_at = now(), ended_why = 'dead' where holder = $1", -HOLDER
        )
        await _some_of_everything(dsn)

    stored = [tuple(row) for row in await rows_of(dsn, "timers")]
    assert list(timers_left(recorder.commits)) == stored
    assert {None, "beat", ODD, f"{ODD}2"} == {row[3] for row in stored}, "claimed, following, paused, moved"
    assert {None, HOLDER} == {row[6] for row in stored}
    logged = [tuple(row) for row in await rows_of(dsn, "command_log")]
    assert sorted(tuple(record) for record in changes(recorder, Recorded)) == logged
    assert {row[7] for row in logged} >= {"TRIGGERED", "CANCELED", "RESCHEDULED"}
    holders = {holder.holder: tuple(holder) for holder in changes(recorder, HolderWritten)}
    assert [holders[key] for key in sorted(holders)] == [tuple(row) for row in await rows_of(dsn, "holders")]


async def test_each_renewal_of_the_lead_is_recorded(dsn: str) -> None:
    async with recorded(dsn) as recorder:
        for leader in (HOLDER, HOLDER, None, -HOLDER):
            await query(dsn, "update shardclock.leadership set renewed_at = clock_timestamp(), leader = $1", leader)

    assert changes(recorder, LeaderWritten) == [(HOLDER,), (HOLDER,), (None,), (-HOLDER,)]


async def _some_of_everything(dsn: str) -> None:
    """Make timers in every state, and records with and without each of their fields."""
    odd = "'" + ODD.replace("'", "''") + "'"
    payload = f"jsonb_build_object('of', i, {odd}, null, 'big', repeat('ä', 20000))"
    await add_timers(dsn, 2, due=LAST_DATE, name=f"{odd} || i", payload=payload)
    await add_timers(dsn, 1, due=FIRST_DATE, tenant_id=odd, payload="'null'")
    await add_timers(dsn, 1, payload="""'[1.50, "\\u00fc", {"": -0.0}]'""")
    await add_schedule(dsn)
    async with HolderClient(dsn, HOLDER) as hand:
        claimed = (await hand.take(scope="sweep", horizon_s=2.0)).claimed
        await hand.fire(claimed[1:])
        await hand.cancel(name=f"{ODD}1", reason=ODD)
        await hand.reschedule(name=f"{ODD}2", due_date=MOMENT)
        await call(hand, "pause_timer", timer_key=await schedule(hand, name=ODD))


async def test_a_read_that_ends_between_transactions_continues_there(dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recording, "CHANGES_A_PEEK", 3)
    keys: list[int] = []

    async with recorded(dsn) as recorder:
        for count in (1, 1, 1, 5, 1, 2, 2, 1):  # one transaction has more changes than one read of the recorder
            keys += await add_timers(dsn, count)

    assert new_keys(recorder) == keys
    assert [len(commit.changes) for commit in recorder.commits] == [1, 1, 1, 5, 1, 2, 2, 1]


async def test_a_read_that_fails_before_it_advances_the_slot_repeats_no_commit(
    dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with recorded(dsn) as recorder:
        first = await add_timers(dsn, 2)
        with monkeypatch.context() as broken:
            broken.setattr(recording, "FORGET", "select 1 / 0 where $1::text is not null")
            with pytest.raises(UNAVAILABLE):
                await recorder.drain()
        second = await add_timers(dsn, 2)

    assert new_keys(recorder) == first + second


async def test_the_server_drops_changes_after_they_are_read(dsn: str) -> None:
    async with recorded(dsn) as recorder:
        await add_timers(dsn, 2)
        await recorder.drain()
        (row,) = await query(dsn, recording.PEEK.replace("select data", "select count(data)"), 10)
        assert row[0] == 0


@pytest.mark.exhaustive
async def test_a_kill_of_postgres_loses_and_repeats_no_commit() -> None:
    keys: list[int] = []
    async with sandbox_for(ProcessCluster(0)) as sandbox, recorded(sandbox.direct_dsn) as recorder:
        for _ in range(2):
            keys += await add_timers(sandbox.direct_dsn, 3)
            await recorder.drain()
            keys += await add_timers(sandbox.direct_dsn, 3)
            process = sandbox.postmaster.process()
            assert process is not None
            process.kill()
            await asyncio.to_thread(process.wait)
            with pytest.raises(UNAVAILABLE):
                await recorder.drain()
            await sandbox.restart_postgres()
            keys += await add_timers(sandbox.direct_dsn, 3)

    assert new_keys(recorder) == keys
    assert [commit.lsn for commit in recorder.commits] == sorted({commit.lsn for commit in recorder.commits})


VARIABLES = {"n": 0, "act": "return", "due": "PT1H", "order": "order 1"}


async def test_an_instance_is_recorded_with_its_signals_steps_and_items(dsn: str) -> None:
    engine = SteppedEngine(replace(incarnation(), role=ENGINE), EngineSettings(), dsn)
    await query(dsn, REGISTER, engine.holder, ENGINE, 0, 1)
    recorder = Recorder(dsn)
    await recorder.start()
    async with Session(dsn, application="test") as session:
        await engine.begin()
        await processes.deploy(session, PROCESSES["chaos-race"].model, resource="race.bpmn")

        key = await processes.start(session, "chaos-race", variables=VARIABLES)
        await engine.step()
        (task,) = await tasks.find_tasks(session)
        assert await tasks.complete_task(session, task.task_key, variables={}) == "COMPLETED"
        await engine.step()
        assert await instances.cancel_instance(session, key) == "SENT"
        await engine.step()
        await engine.end()
    async with asyncio.timeout(BOUND_S):
        await recorder.drain()

    seen = [change for commit in recorder.commits for change in commit.changes]
    rows = [change for change in seen if isinstance(change, InstanceWritten)]
    assert [(row.new, row.version, row.outcome) for row in rows] == [
        (True, 1, None),
        (False, 2, None),
        (False, 3, "CANCELED"),
    ]
    assert {(row.instance_key, row.tenant_id, row.process_id) for row in rows} == {(key, "default", "chaos-race")}
    assert rows[-1].result is not None
    assert json.loads(rows[-1].result)["n"] == 1
    steps = [change for change in seen if isinstance(change, InstanceStepped)]
    assert [[told["kind"] for told in json.loads(step.signals)] for step in steps] == [
        ["begin"],
        ["completed"],
        ["cancel"],
    ]
    assert json.loads(steps[1].passes)[0][1:] == ["approve", "left"]
    signals = [change for change in seen if isinstance(change, DeliveryWritten) and change.target == SIGNAL]
    first, *others = [(signal.timer_key, signal.instance_key) for signal in signals]
    assert first == (key, None)
    assert {instance_key for _, instance_key in others} == {key}
    (timer,) = (change for change in seen if isinstance(change, TimerWritten) and change.new)
    assert (timer.instance_key, timer.node_id) == (key, "late")
    (job,) = (change for change in seen if isinstance(change, DeliveryWritten) and change.job and change.new)
    assert (job.instance_key, job.node_id, job.tenant_id) == (key, "charge", "default")
    assert job.payload is not None
    assert json.loads(job.payload)["act"] == "return"
    made = [change for change in seen if isinstance(change, TaskWritten | TaskDeleted)]
    assert made == [
        TaskWritten(True, task.task_key, key, "approve", completed=False),
        TaskWritten(False, task.task_key, key, "approve", completed=True),
        TaskDeleted(task.task_key),
    ]
