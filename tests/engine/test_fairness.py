"""One tenant's work delays no other tenant by more than a batch, and no cancellation waits behind other signals."""

from __future__ import annotations

import pytest

from shardclock_server.engine import advance, batch, runner
from shardclock_server.engine.tenant_scheduler import TenantScheduler
from shardclock_server.service import processes
from shardclock_server.sql.processes import instances
from shardclock_server.sql.processes.apply import AppliedSteps, Writes, apply_steps
from shardclock_server.sql.session import Session, StoreTooSlow
from tests.support.bpmn import SHARED, flows, model
from tests.support.bpmn_cluster import Processes, running

START, END = '<startEvent id="s"/>', '<endEvent id="e"/>'
COUNT = (
    '<scriptTask id="x"><extensionElements><zeebe:script expression="=n + 1" resultVariable="n"/>'
    '</extensionElements></scriptTask><exclusiveGateway id="g" default="g-x"/>'
)
FOR_EVER = "s>x x>g g>x g>e[n < 0]"


async def deploy(it: Processes, elements: str, *, tenant: str, process_id: str = "p", connected: str) -> None:
    written = model(elements, connected=connected, process_id=process_id)
    await processes.deploy(it.session, written, resource=f"{process_id}.bpmn", tenant_id=tenant)


async def begin(it: Processes, tenant: str, count: int = 1, process_id: str = "p") -> list[int]:
    start = "select shardclock.start_process($1, '{\"n\": 0}', $2) as key from generate_series(1, $3::integer)"
    return [row["key"] for row in await it.query(start, process_id, tenant, count)]


async def ended(it: Processes, key: int) -> bool:
    return bool(await it.query("select from shardclock.instances where instance_key = $1 and outcome is not null", key))


@pytest.mark.parametrize("count", [8, 300])
async def test_endless_loops_delay_another_tenant_by_at_most_a_batch(count: int) -> None:
    async with running() as it:
        await deploy(it, START + COUNT + END, tenant="busy", connected=FOR_EVER)
        await deploy(it, START + END, tenant="zzz", connected="s>e")
        await begin(it, "busy", count)
        (turns,) = it.engine._runners
        turns._batch = turns._batch_max
        for _ in range(5):
            await turns.turn()
        for _ in range(3):
            (key,) = await begin(it, "zzz")

            await turns.turn()

            assert await ended(it, key)


async def test_a_backlog_of_one_tenant_does_not_delay_another_tenant() -> None:
    async with running() as it:
        for tenant in ("busy", "zzz"):
            await deploy(it, START + END, tenant=tenant, connected="s>e")
        backlog = await begin(it, "busy", 100)
        (key,) = await begin(it, "zzz")
        (turns,) = it.engine._runners
        turns._batch = 4

        await turns.turn()

        assert await ended(it, key)
        assert await ended(it, backlog[0])


async def test_an_instance_over_its_limit_continues_though_another_tenant_is_always_over_its_limit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Given an instance with many signals, beside a tenant with instances that never fit into a batch
    monkeypatch.setattr(advance, "NODES_MAX", 1)
    task = '<userTask id="u"/>'
    async with running() as it:
        await deploy(it, START + COUNT + END, tenant="busy", connected=FOR_EVER)
        await deploy(it, START + task, tenant="zzz", connected="s>u")
        (key,) = await begin(it, "zzz")
        await it.query(
            "select shardclock.set_variables($1, jsonb_build_object('v', i)) from generate_series(1, 9) i", key
        )
        (turns,) = it.engine._runners
        for _ in range(30):
            for busy in await begin(it, "busy"):
                await it.query("select shardclock.set_variables($1, '{\"v\": 1}') from generate_series(1, 9)", busy)
            await turns.turn()
        left = await it.query("select from shardclock.deliveries where tenant_id = 'zzz'")
        assert left == []


async def test_reading_the_models_of_one_tenant_delays_another_tenant_by_at_most_a_batch(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(runner, "BATCH_S", 1e-9)
    async with running() as it:
        for number in range(5):
            await deploy(it, START + END, tenant="busy", process_id=f"p{number}", connected="s>e")
            await begin(it, "busy", process_id=f"p{number}")
        await deploy(it, START + END, tenant="zzz", connected="s>e")
        (turns,) = it.engine._runners
        await turns.turn()
        (key,) = await begin(it, "zzz")

        await turns.turn()

        assert await ended(it, key), "one model was read in each turn"
        await it.settle()
        assert len(await it.query("select from shardclock.instances where outcome = 'COMPLETED'")) == 6


async def test_a_cancellation_comes_before_all_other_signals_of_its_instance() -> None:
    loop = (
        '<subProcess id="a" triggeredByEvent="true"><startEvent id="as" isInterrupting="false">'
        '<messageEventDefinition messageRef="m"/></startEvent>'
        '<scriptTask id="x"><extensionElements><zeebe:script expression="=n + 1" resultVariable="n"/>'
        '</extensionElements></scriptTask><exclusiveGateway id="g" default="g-ae"/><endEvent id="ae"/>'
        + flows("as>x x>g g>x[n < 200] g>ae")
        + "</subProcess>"
    )
    async with running() as it:
        await it.deploy(START + '<userTask id="u"/>' + loop, connected="s>u", beside=SHARED)
        key = await it.start(order="42")
        publish = "select shardclock.publish_message('paid', '42', '{\"n\": 0}') from generate_series(1, 500)"
        await it.query(publish)
        (turns,) = it.engine._runners
        for _ in range(3):
            await turns.turn()
        assert await instances.cancel_instance(it.session, key) == "SENT"

        await turns.turn()

        assert await it.state(key) == "CANCELED"


async def test_the_cancellation_of_an_instance_that_has_not_begun_comes_before_all_starts() -> None:
    async with running() as it:
        await it.deploy(START + COUNT + END, connected=FOR_EVER)
        keys = await begin(it, "default", 100)
        (turns,) = it.engine._runners
        turns._batch = 4
        for _ in range(2):
            assert await instances.cancel_instance(it.session, keys[-1]) == "SENT"

        await turns.turn()

        assert await it.state(keys[-1]) == "CANCELED"
        assert await it.history(keys[-1]) == [], "nothing of its process has run"


def test_the_tenant_with_the_least_used_time_is_next() -> None:
    queue, order = TenantScheduler(), []
    for tenant in queue.in_turn({"a": ["a"] * 6, "b": ["b"] * 6}):
        order.append(tenant)
        queue.charge(tenant, 2.0 if tenant == "a" else 1.0)
    assert order[:9].count("b") == 2 * order[:9].count("a")


def test_a_tenant_gets_no_credit_for_a_pause_and_a_heavy_tenant_waits_for_new_tenants() -> None:
    queue = TenantScheduler()
    for tenant in queue.in_turn({"a": ["a"] * 100}):
        queue.charge(tenant, 1.0)
    assert queue.ahead_s() == {"a": 1.0}, "by its last item alone"
    order = []
    for tenant in queue.in_turn({"a": ["a"] * 3, "b": ["b"] * 3}):
        order.append(tenant)
        queue.charge(tenant, 1.0)
    assert order == ["b", "a", "b", "a", "b", "a"]


def test_tenants_that_are_not_ahead_are_forgotten() -> None:
    queue = TenantScheduler()
    for tenant in queue.in_turn({str(number): [str(number)] for number in range(100)}):
        queue.charge(tenant, 1.0)
    for _ in queue.in_turn({"a": ["a"] * 3}):
        queue.charge("a", 5.0)
    assert set(queue.ahead_s()) == {"a"}
    assert set(queue._used_s) == {"a"}


async def test_a_batch_ends_by_time_with_instances_of_any_tenant(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch, "BATCH_S", 0.0)
    async with running() as it:
        for tenant in ("busy", "zzz"):
            await deploy(it, START + END, tenant=tenant, connected="s>e")
        for _ in range(5):
            await begin(it, "busy")
        (key,) = await begin(it, "zzz")
        (turns,) = it.engine._runners

        await turns.turn()
        await turns.turn()

        assert await ended(it, key), "of two turns of one instance each, one was its tenant's"


async def test_if_a_batch_takes_too_long_because_of_one_tenant_the_rows_of_the_other_tenants_are_written_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Given a batch with the steps of two tenants. The write of the busy tenant's steps takes too long
    tried: list[list[str]] = []
    write = apply_steps

    async def slow(session: Session, holder: int, writes: Writes, **limits: int) -> AppliedSteps:
        tried.append([step["tenant_id"] for step in writes.steps])
        if "busy" in tried[-1]:
            raise StoreTooSlow("canceling statement due to statement timeout")
        return await write(session, holder, writes, **limits)

    async with running() as it:
        for tenant in ("busy", "zzz"):
            await deploy(it, START + END, tenant=tenant, connected="s>e")
        await begin(it, "busy", 8)
        (key,) = await begin(it, "zzz")
        monkeypatch.setattr(runner, "apply_steps", slow)
        (turns,) = it.engine._runners
        await turns.turn()

        # Then the second statement writes the other tenant's steps
        assert tried[1] == ["zzz"]
        assert await ended(it, key)

        # And the first statement of the next turn writes the busy tenant's steps
        await it.query("update shardclock.deliveries set next_attempt_at = now()")
        (key,) = await begin(it, "zzz")
        tried.clear()
        await turns.turn()
        assert tried[0] == ["zzz"]
        assert await ended(it, key)
