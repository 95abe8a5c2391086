"""A step that is long is cut: the instance goes on in later batches, and others don't wait for all of it."""

from __future__ import annotations

import pytest

from engine import advancing
from sql.processes import instances
from tests.support.bpmn_cluster import running

START, END = '<startEvent id="s"/>', '<endEvent id="e"/>'
# A script that counts, again and again until it has come to `turns`.
COUNT = (
    '<scriptTask id="x"><extensionElements><zeebe:script expression="=n + 1" resultVariable="n"/>'
    '</extensionElements></scriptTask><exclusiveGateway id="g" default="g-e"/>'
)
AGAIN = "s>x x>g g>x[n < turns] g>e"


async def test_a_long_step_is_cut_and_goes_on_until_its_end() -> None:
    async with running() as it:
        await it.deploy(START + COUNT + END, connected=AGAIN)
        key = await it.start(n=0, turns=2_000)
        assert (await it.see(key)).result == {"n": 2_000, "turns": 2_000}
        steps = await instances.steps_of(it.session, key)
        entered = [sum(change == "entered" for _, _, change in step.passes) for step in steps]
        assert max(entered) <= advancing.NODES_MAX + 1, "and the process itself"
        assert sum(entered) == 2 * 2_000 + 3
        assert [said["kind"] for step in steps for said in step.signals] == ["begin"] + ["continued"] * (len(steps) - 1)
        assert await it.query("select 1 from shardclock.deliveries") == []


async def test_others_are_served_while_a_long_step_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(advancing, "NODES_MAX", 10)
    async with running() as it:
        await it.deploy(START + COUNT + END, connected=AGAIN)
        long = (await it.query("select shardclock.start_process('p', '{\"n\": 0, \"turns\": 200}') as key"))[0]["key"]
        (runner,) = [one for one in it.engine._runners if one._lane.number == long // 840 % 2]
        assert await runner.turn()
        short = (await it.query("select shardclock.start_process('p', '{\"n\": 0, \"turns\": 1}') as key"))[0]["key"]
        assert await runner.turn()
        assert await it.state(short) == "COMPLETED"
        assert await it.state(long) == "RUNNING"


async def test_a_long_step_is_cancelled_between_its_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(advancing, "NODES_MAX", 10)
    async with running() as it:
        await it.deploy(START + COUNT + END, connected=AGAIN)
        key = (await it.query("select shardclock.start_process('p', '{\"n\": 0, \"turns\": 200}') as key"))[0]["key"]
        for runner in it.engine._runners:
            await runner.turn()
        assert await instances.cancel_instance(it.session, key)
        await it.settle()
        assert await it.state(key) == "CANCELED"
        assert (await it.history(key)).count("x+") <= 10
        assert await it.query("select 1 from shardclock.deliveries") == []


async def test_signals_that_come_between_the_parts_send_no_second_continuation(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(advancing, "NODES_MAX", 10)
    async with running() as it:
        await it.deploy(START + COUNT + END, connected=AGAIN)
        key = (await it.query("select shardclock.start_process('p', '{\"n\": 0, \"turns\": 100}') as key"))[0]["key"]
        for name in ("a", "b", "c"):
            assert await instances.set_variables(it.session, key, {name: 1})
        sent = []
        for _ in range(8):
            for runner in it.engine._runners:
                await runner.turn()
            rows = await it.query("select 1 from shardclock.deliveries where payload ->> 'kind' = 'continued'")
            sent.append(len(rows))
        assert max(sent) == 1
        await it.settle()
        assert (await it.see(key)).result == {"n": 100, "turns": 100, "a": 1, "b": 1, "c": 1}
        assert await it.stale(key) == []


async def test_a_slow_expression_ends_its_part(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(advancing, "SHARE_S", 0.0)
    async with running() as it:
        await it.deploy(START + COUNT + END, connected=AGAIN)
        key = await it.start(n=0, turns=3)
        steps = await instances.steps_of(it.session, key)
        assert (await it.see(key)).result == {"n": 3, "turns": 3}
        assert len(steps) == 2 * 3 + 2, "one for each node"
