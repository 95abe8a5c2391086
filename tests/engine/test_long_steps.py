"""No instance waits long for another, because a long step is divided, and one statement reads a limited batch."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import pytest
import structlog

import shardclock_server.engine.batch
import shardclock_server.engine.runner
from shardclock_server.engine import advance, outbox
from shardclock_server.engine.runner import BATCH_FIRST, SignalRunner
from shardclock_server.engine.stats import EngineStats
from shardclock_server.service import processes
from shardclock_server.service.processes import variables_of
from shardclock_server.sql.processes import instances, tasks
from shardclock_server.sql.processes.signals import TAKEN_BYTES_MAX, DueSignal, Poll, read_due_signals
from shardclock_server.sql.session import Session, StoreUnavailable
from tests.support.bpmn import SHARED, flows, model
from tests.support.bpmn_cluster import running
from tests.support.factories import add_holder, query

START, END = '<startEvent id="s"/>', '<endEvent id="e"/>'
# A script that counts up to `turns`, in a loop of nodes.
COUNT = (
    '<scriptTask id="x"><extensionElements><zeebe:script expression="=n + 1" resultVariable="n"/>'
    '</extensionElements></scriptTask><exclusiveGateway id="g" default="g-e"/>'
)
TASK = '<extensionElements><zeebe:taskDefinition type="t"/></extensionElements>'
AGAIN = "s>x x>g g>x[n < turns] g>e"


async def test_a_long_step_is_divided_and_continues_to_its_end() -> None:
    async with running() as it:
        await it.deploy(START + COUNT + END, connected=AGAIN)
        key = await it.start(n=0, turns=2_000)
        assert (await it.see(key)).result == {"n": 2_000, "turns": 2_000}
        steps = await instances.steps_of(it.session, key)
        entered = [sum(change == "entered" for _, _, change in step.passes) for step in steps]
        assert max(entered) <= advance.NODES_MAX + 1, "and the process itself"
        assert sum(entered) == 2 * 2_000 + 3
        assert [said["kind"] for step in steps for said in step.signals] == ["begin"] + ["continued"] * (len(steps) - 1)
        assert await it.query("select 1 from shardclock.deliveries") == []


async def test_a_step_with_large_output_is_divided_and_continues_to_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    # Given forty simultaneous tasks with 100,000 characters each
    monkeypatch.setattr(advance, "BUDGET_CHARS", 1_000_000)
    tasks = "".join(f'<serviceTask id="t{n}">{TASK}</serviceTask>' for n in range(40))
    fork = " ".join(f"g>t{n}" for n in range(40))
    async with running() as it:
        await it.deploy(f'{START}<parallelGateway id="g"/>{tasks}', connected=f"s>g {fork}")

        # When an instance starts
        key = await it.start(big="x" * 100_000)

        # Then no statement of the instance's step sends much more than 1,000,000 characters
        steps = await instances.steps_of(it.session, key)
        begun = [sum(change == "entered" and node[0] == "t" for _, node, change in step.passes) for step in steps]
        assert max(begun) <= 11
        assert sum(begun) == len(await it.query("select 1 from shardclock.deliveries")) == 40


async def test_signals_that_an_instance_throws_to_itself_have_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    # Given an instance with ten tokens that wait for a signal
    monkeypatch.setattr(outbox, "TO_ITSELF_CHARS_MAX", 500_000)
    signal = '<signalEventDefinition signalRef="g"/>'
    waits = "".join(f'<intermediateCatchEvent id="w{n}">{signal}</intermediateCatchEvent>' for n in range(10))
    given = '<zeebe:ioMapping><zeebe:input source="=big" target="big"/></zeebe:ioMapping>'
    inside = f"<extensionElements>{given}</extensionElements>{signal}"
    throw = f'<intermediateThrowEvent id="x">{inside}</intermediateThrowEvent>'
    fork = " ".join(f"f>w{n}" for n in range(10))
    async with running() as it:
        await it.deploy(
            f'{START}<parallelGateway id="f"/>{waits}{throw}',
            connected=f"s>f {fork} f>x",
            beside='<signal id="g" name="go"/>',
        )

        # When an instance throws the signal to all ten tokens with 100,000 characters, then only this instance fails
        key = await it.start(big="x" * 100_000)
        (put_off,) = await it.query("select failures::text from shardclock.deliveries")
        assert "10 signals to itself, which have more than 500,000 characters" in put_off["failures"]
        assert await it.query(f"select 1 from shardclock.instances where instance_key = {key}") == []


async def test_a_batch_of_large_rows_is_written_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    # Given twenty starts, each with a state of 100,000 characters and a service task of the same size
    monkeypatch.setattr(shardclock_server.engine.batch, "BATCH_CHARS", 500_000)
    async with running() as it:
        await it.deploy(f'{START}<serviceTask id="t">{TASK}</serviceTask>', connected="s>t")
        start = "select shardclock.start_process('p', jsonb_build_object('big', repeat('x', 100000)))"
        await it.query(f"{start} from generate_series(1, 20)")

        # When an engine runs one turn
        (first, *_) = it.engine._runners
        first._batch = 20
        assert await first.turn()

        # Then the engine starts a few instances, and starts the remaining instances in later turns
        assert await it.query("select count(*) from shardclock.instances") == [{"count": 3}]
        await it.settle()
        assert await it.query("select count(*) from shardclock.instances") == [{"count": 20}]


async def test_other_instances_continue_while_a_long_step_is_divided(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(advance, "NODES_MAX", 10)
    async with running() as it:
        await it.deploy(START + COUNT + END, connected=AGAIN)
        long = (await it.query("select shardclock.start_process('p', '{\"n\": 0, \"turns\": 200}') as key"))[0]["key"]
        (runner,) = [one for one in it.engine._runners if one._stripe.number == long // 840 % 2]
        assert await runner.turn()
        short = (await it.query("select shardclock.start_process('p', '{\"n\": 0, \"turns\": 1}') as key"))[0]["key"]
        assert await runner.turn()
        assert await it.state(short) == "COMPLETED"
        assert await it.state(long) == "RUNNING"


async def test_a_long_step_is_cancelled_between_its_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(advance, "NODES_MAX", 10)
    async with running() as it:
        await it.deploy(START + COUNT + END, connected=AGAIN)
        key = (await it.query("select shardclock.start_process('p', '{\"n\": 0, \"turns\": 200}') as key"))[0]["key"]
        for runner in it.engine._runners:
            await runner.turn()
        assert await instances.cancel_instance(it.session, key) == "SENT"
        await it.settle()
        assert await it.state(key) == "CANCELED"
        assert (await it.history(key)).count("x+") <= 10
        assert await it.query("select 1 from shardclock.deliveries") == []


async def test_signals_between_the_parts_of_a_step_cause_no_second_continuation(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(advance, "NODES_MAX", 10)
    async with running() as it:
        await it.deploy(START + COUNT + '<userTask id="e"/>', connected=AGAIN)
        key = (await it.query("select shardclock.start_process('p', '{\"n\": 0, \"turns\": 100}') as key"))[0]["key"]
        for name in ("a", "b", "c"):
            assert await instances.set_variables(it.session, key, {name: 1})
        sent = []
        for _ in range(30):
            for runner in it.engine._runners:
                await runner.turn()
            rows = await it.query("select 1 from shardclock.deliveries where payload ->> 'kind' = 'continued'")
            sent.append(len(rows))
        assert max(sent) == 1
        await it.settle()
        assert variables_of(await it.see(key)) == {"n": 100, "turns": 100, "a": 1, "b": 1, "c": 1}
        assert await it.stale(key) == []


async def test_a_slow_expression_ends_the_current_part_of_the_step(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(advance, "BUDGET_S", 0.0)
    async with running() as it:
        await it.deploy(START + COUNT + END, connected=AGAIN)
        key = await it.start(n=0, turns=3)
        steps = await instances.steps_of(it.session, key)
        assert (await it.see(key)).result == {"n": 3, "turns": 3}
        assert len(steps) == 2 * 3 + 2, "one for each node"


async def test_a_signal_after_a_completion_comes_after_all_parts_of_the_divided_step(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Two signals have the same effect, even if the engine divides the first step."""
    count = (
        '<scriptTask id="x"><extensionElements><zeebe:script expression="=n + 1" resultVariable="n"/>'
        '</extensionElements></scriptTask><exclusiveGateway id="g" default="g-l"/>'
    )
    last = (
        '<scriptTask id="l"><extensionElements><zeebe:script expression="=&quot;script&quot;" resultVariable="by"/>'
        "</extensionElements></scriptTask>"
    )
    found = []
    for nodes in (500, 10):
        monkeypatch.setattr(advance, "NODES_MAX", nodes)
        async with running() as it:
            await it.deploy(
                START + '<userTask id="u"/>' + count + last + '<userTask id="w"/>' + END,
                connected="s>u u>x x>g g>x[n < 30] g>l l>w w>e",
            )
            key = await it.start(n=0)
            (task,) = await tasks.find_tasks(it.session)
            assert await tasks.complete_task(it.session, task.task_key, variables={}) == "COMPLETED"
            assert await instances.set_variables(it.session, key, {"by": "hand"})
            await it.settle()
            found.append((variables_of(await it.see(key)) or {})["by"])
    assert found == ["hand", "hand"]


async def test_a_move_after_a_completion_works_although_the_step_is_divided(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A token can be moved into the sub-process only after the first step has reached the sub-process."""
    count = (
        '<scriptTask id="x"><extensionElements><zeebe:script expression="=n + 1" resultVariable="n"/>'
        '</extensionElements></scriptTask><exclusiveGateway id="g" default="g-z"/>'
    )
    inside = '<startEvent id="zs"/><userTask id="zu"/><userTask id="zv"/>' + flows("zs>zu")
    stale = []
    for nodes in (500, 10):
        monkeypatch.setattr(advance, "NODES_MAX", nodes)
        async with running() as it:
            await it.deploy(
                START + '<userTask id="u"/>' + count + f'<subProcess id="z">{inside}</subProcess>',
                connected="s>u u>x x>g g>x[n < 30] g>z",
            )
            key = await it.start(n=0)
            (task,) = await tasks.find_tasks(it.session)
            assert await tasks.complete_task(it.session, task.task_key, variables={}) == "COMPLETED"
            assert await instances.move_tokens(it.session, key, begun=["zv"])
            await it.settle()
            stale.append(await it.stale(key))
    assert stale == [[], []]


async def test_an_instance_with_many_signals_does_not_stop_other_instances() -> None:
    """A thousand messages each enter 120 nodes: an instance may take at most four such messages in a batch."""
    loop = (
        '<subProcess id="a" triggeredByEvent="true"><startEvent id="as" isInterrupting="false">'
        '<messageEventDefinition messageRef="m"/></startEvent>'
        '<scriptTask id="x"><extensionElements><zeebe:script expression="=n + 1" resultVariable="n"/>'
        '</extensionElements></scriptTask><exclusiveGateway id="g" default="g-ae"/><endEvent id="ae"/>'
        + flows("as>x x>g g>x[n < 60] g>ae")
        + "</subProcess>"
    )
    async with running() as it:
        await it.deploy(START + '<userTask id="u"/>' + loop, connected="s>u", beside=SHARED)
        await it.deploy(START + END, connected="s>e", process_id="other")
        busy = await it.start(order="42")
        (runner,) = [one for one in it.engine._runners if one._stripe.number == busy // 840 % 2]
        publish = "select shardclock.publish_message('paid', '42', '{\"n\": 0}') from generate_series(1, 1000)"
        assert len(await it.query(publish)) == 1_000
        other = 0
        while other // 840 % 2 != busy // 840 % 2 or not other:
            other = (await it.query("select shardclock.start_process('other') as key"))[0]["key"]
        turns = 0
        while await it.state(other) != "COMPLETED":
            assert turns < 10, "each turn is a share of the busy one: 50 ms or 500 nodes"
            await runner.turn()
            turns += 1


async def test_skipped_instances_are_read_again_if_reading_past_them_times_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    left_out: list[set[int]] = []

    async def read(*_: Any, without: Iterable[int], **__: Any) -> Poll:
        left_out.append(set(without))
        if left_out[-1]:
            raise StoreUnavailable("it takes too long")
        return Poll([], "", {})

    monkeypatch.setattr(shardclock_server.engine.runner, "read_due_signals", read)
    it = SignalRunner(
        Session("postgresql://nobody@localhost/none", application="test"),
        1,
        EngineStats(),
        batch=500,
        log=structlog.get_logger(),
    )
    it._skipped["default"] = {7}
    with pytest.raises(StoreUnavailable):
        await it.turn()

    assert not await it.turn()
    assert left_out == [{7}, set()]


MIB = 2**20
SIGNAL_COUNT = 100
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
    await query(dsn, INSTANCES, SIGNAL_COUNT, state)
    await query(dsn, SIGNALS, SIGNAL_COUNT, payload)
    async with Session(dsn, application="test", timeout_s=30) as session:
        taken = (await read_due_signals(session, 1, batch=500)).signals
        assert TAKEN_BYTES_MAX - MIB < size_of(taken) < TAKEN_BYTES_MAX + MIB
        without = [it.instance_key for it in taken]
        rest = (await read_due_signals(session, 1, batch=500, without=without)).signals
        assert [it.instance_key for it in taken + rest] == list(range(1, len(taken + rest) + 1))


async def test_a_new_engine_begins_with_a_small_batch_and_doubles_its_batches(dsn: str) -> None:
    await add_holder(dsn, 1, 0, 1)
    async with Session(dsn, application="test") as session, Session(dsn, application="engine") as steps:
        await processes.deploy(session, model(USER, connected="s>u"), resource="p.bpmn")
        for _ in range(SIGNAL_COUNT):
            await processes.start(session, "p")
        stats, seen = EngineStats(), []
        runner = SignalRunner(steps, 1, stats, batch=40, log=structlog.get_logger())
        while await runner.turn():
            seen.append(stats.begun)
    assert seen == [BATCH_FIRST, 3 * BATCH_FIRST, 3 * BATCH_FIRST + 40, SIGNAL_COUNT]
