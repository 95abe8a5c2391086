"""If all signals that an engine has read must wait, the cursor of their lane moves on, but skips no signal.

A lane is the queue of one tenant's signals.
"""

from __future__ import annotations

import json

import pytest

from shardclock_server.engine import advance
from shardclock_server.engine.runner import SignalRunner
from shardclock_server.service import processes
from tests.support.bpmn import model
from tests.support.bpmn_cluster import Processes, running

START, TASK, END = '<startEvent id="s"/>', '<userTask id="a"/>', '<endEvent id="e"/>'
BOTH = '<parallelGateway id="f"/><userTask id="a"/><userTask id="b"/><parallelGateway id="j"/>'


async def deploy(it: Processes, tenant: str, elements: str = START + TASK + END, connected: str = "s>a a>e") -> None:
    await processes.deploy(it.session, model(elements, connected=connected), resource="p.bpmn", tenant_id=tenant)


async def begin(it: Processes, tenant: str, count: int = 1) -> list[int]:
    start = "select shardclock.start_process('p', '{\"x\": 0}', $1) as key from generate_series(1, $2::integer)"
    return [row["key"] for row in await it.query(start, tenant, count)]


def new_turns(it: Processes, batch: int) -> SignalRunner:
    (turns,) = it.engine._runners
    turns._batch = turns._batch_max = batch
    return turns


async def test_signals_beyond_an_instance_s_limit_are_taken_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(advance, "BUDGET_S", 0.0)
    async with running() as it:
        for tenant in ("ttt", "ooo"):
            await deploy(it, tenant)
        (key,) = await begin(it, "ttt")
        await it.settle()
        turns = new_turns(it, 8)
        change = "select shardclock.set_variables($1, jsonb_build_object('n', n)) from generate_series(1, 60) n"
        await it.query(change, key)

        for _ in range(400):
            await begin(it, "ooo")
            await turns.turn()
            if not await it.query("select from shardclock.deliveries where tenant_id = 'ttt'"):
                break

        steps = "select signals::text from shardclock.instance_steps where instance_key = $1 order by version"
        taken = [signal["key"] for row in await it.query(steps, key) for signal in json.loads(row["signals"])]
        assert len(taken) > 60
        assert taken == sorted(taken)


@pytest.mark.parametrize("tenants", [10, 17, 20])
async def test_a_lane_without_a_turn_in_a_batch_is_read_from_its_beginning(tenants: int) -> None:
    # Given an instance with two completed tasks. Between the two completions, the tenant has started nine instances
    async with running() as it:
        await deploy(it, "zzz", START + BOTH + END, "s>f f>a f>b a>j b>j j>e")
        others = [f"t{number:02}" for number in range(tenants)]
        for tenant in others:
            await deploy(it, tenant, START + END, "s>e")
        (key,) = await begin(it, "zzz")
        await it.settle()
        tasks = {row["node_id"]: row["task_key"] for row in await it.query("select * from shardclock.tasks")}
        for tenant in others:
            await begin(it, tenant, 30)
        complete = (
            "select shardclock.complete_task($1, variables => jsonb_build_object('x', $2::integer), tenant_id => 'zzz')"
        )
        await it.query(complete, tasks["a"], 1)
        await begin(it, "zzz", 9)
        await it.query(complete, tasks["b"], 2)

        # When an engine starts with a batch smaller than the number of tenants
        turns = new_turns(it, 16)
        while await turns.turn():
            pass

        # Then the engine writes the variables of the later task last
        result = "select result::text from shardclock.instances where instance_key = $1"
        assert [json.loads(row["result"]) for row in await it.query(result, key)] == [{"x": 2}]


@pytest.mark.parametrize("tenants", [400, 600])
async def test_a_cursor_outlasts_the_pages_of_other_tenants(tenants: int) -> None:
    # Given 171 signals to one instance, and a later start of the same tenant. The signals wait for the first signal
    async with running() as it:
        await deploy(it, "aaa")
        (key,) = await begin(it, "aaa")
        await it.settle()
        send = "select shardclock.send_signal($1, 'aaa', '{\"kind\": \"closed\"}', 2) from generate_series(1, 171)"
        await it.query(send, key)
        await it.query(
            "update shardclock.deliveries set failed_attempts = 9, next_attempt_at = now() + interval '1 hour' "
            "where timer_key = (select min(timer_key) from shardclock.deliveries)"
        )
        send_others = (
            "select shardclock.send_signal(1000000 + n, 'b' || lpad(n::text, 4, '0'), '{\"kind\": \"closed\"}', 2) "
            "from generate_series(1, $1::integer) n"
        )
        await it.query(send_others, tenants)
        await it.query(
            "update shardclock.deliveries set failed_attempts = 9, next_attempt_at = now() + interval '1 hour' "
            "where tenant_id like 'b%'"
        )
        (behind,) = await begin(it, "aaa")
        turns = new_turns(it, 16)

        for _ in range(8):
            await turns.turn()

        assert await it.query("select from shardclock.instances where instance_key = $1", behind)
