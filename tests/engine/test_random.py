"""Random paths through random processes in the database, compared with a second interpreter."""

from __future__ import annotations

from itertools import count
from random import Random

import pytest

from shardclock_server.sql.processes import instances
from tests.support.bpmn_blocks import ERROR, Scope, Written, drawn
from tests.support.bpmn_cluster import Processes, running

MOVES_MAX = 100
THROWN = '{"kind": "error", "code": "E"}'
COMPLETED = '{"kind": "completed"}'
# The effect of a worker's statement that settles a service task.
SETTLE = """
    with gone as (delete from shardclock.deliveries d where d.timer_key = $1 returning d.*)
    select shardclock.send_signal(g.process_instance_key, g.tenant_id, $2, g.element_instance_key) from gone g
"""


async def play(it: Processes, seed: int) -> None:
    """Run a process until it ends, or until an uncaught error stops it."""
    random = Random(seed)
    block = drawn(random, depth=random.randint(1, 3), numbers=count())
    ended: list[str] = []
    expected = Scope(None, lambda: ended.append("COMPLETED"), None)
    expected.run(block)
    await it.deploy(Written(block).elements, beside=ERROR, process_id=f"p{seed}")
    key = await it.start(f"p{seed}")
    for _ in range(MOVES_MAX):
        found = await it.see(key)
        waits = [*found.waits["timers"], *found.waits["service_tasks"]]
        assert sorted(one["node_id"] for one in waits) == sorted(expected.all_waits()), seed
        assert found.found.state == (ended[0] if ended else "RUNNING"), seed
        if ended:
            break
        if random.random() < 0.02:
            assert await instances.cancel_instance(it.session, key) == "SENT"
            ended.append("CANCELED")
            expected = Scope(None, lambda: None, None)
        elif await move(it, random, expected, waits):
            assert [one["node_id"] for one in (await it.see(key)).waits["incident_list"]]
            return
        await it.settle()
    assert ended, f"{seed}: no end after {MOVES_MAX} moves"
    assert await it.query("select 1 from shardclock.timers") == []
    assert await it.stale(key) == []


async def move(it: Processes, random: Random, expected: Scope, waits: list[dict[str, object]]) -> bool:
    """Trigger one of the waits in both interpreters; return True if an uncaught error stopped the instance."""
    one = random.choice(waits)
    scope, go_on = expected.all_waits()[str(one["node_id"])]
    if "type" not in one:
        await it.query("select shardclock.change_system_timer('reschedule', $1, delay => 'PT0S')", one["timer_key"])
    elif random.random() < 0.2:
        await it.query(SETTLE, one["task_key"], THROWN)
        if not scope.throw():
            await it.settle()
            return True
        return False
    else:
        await it.query(SETTLE, one["task_key"], COMPLETED)
    go_on()
    return False


@pytest.mark.exhaustive
async def test_random_processes_have_the_same_waits_and_ends_in_a_second_interpreter() -> None:
    async with running() as it:
        for seed in range(40):
            await play(it, seed)
            await it.query("delete from shardclock.deliveries")  # the signals that a stopped instance left
            await it.query("delete from shardclock.timers")
