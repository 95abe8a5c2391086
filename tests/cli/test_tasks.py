"""Commands about user tasks report their effect, or the assignee of a task that they leave unchanged."""

from __future__ import annotations

import asyncio

import pytest

from shardclock.api.refusals.processes import TASK_CANCELED, UNKNOWN_TASK
from tests.support.cli_asserts import BAD_INPUT, DONE, assert_code
from tests.support.factories import query
from tests.support.program import Shell

DEFINITION = """
insert into shardclock.definitions (
    definition_key, tenant_id, process_id, version, name, resource, digest, model, starts
)
select 1, 'default', 'p', 1, 'p', 'p.bpmn', sha256(''), '', '[]'
"""
INSTANCE = """
insert into shardclock.instances (instance_key, definition_key, version, tenant_id, process_id, state)
values (
    1, 1, 1, 'default', 'p',
    '{"f": 1, "k": 3, "c": 0, "s": null, "t":
        [[1, "p", 0, 3, {"order": 42, "who": "all"}], [2, "u", 1, 3, {"who": "one"}]]}'
)
"""
TASK = """
insert into shardclock.tasks (task_key, instance_key, token, tenant_id, process_id, node_id, name, candidate_groups)
values (7, 1, 2, 'default', 'p', 'u', 'u', '{sales}')
"""
NAMED = "insert into shardclock.business_keys (instance_key, tenant_id, business_key) values (1, 'default', 'order-42')"


@pytest.fixture
def task(shell: Shell) -> Shell:
    """Open one task with key 7."""

    async def make() -> None:
        for statement in (DEFINITION, INSTANCE, TASK, NAMED):
            await query(shell.dsn, statement)

    asyncio.run(make())
    return shell


def test_a_change_of_a_task_is_reported(task: Shell) -> None:
    claimed = task("tasks", "claim", 7, "--assignee", "ann")
    assert (claimed.code, claimed.err) == (DONE, "task 7 is assigned to 'ann' now\n")
    assert task("tasks", "unclaim", 7).err == "task 7 has no assignee now\n"
    assert task("tasks", "unclaim", 7, "--json").json == {"task_key": 7, "state": "CREATED"}
    completed = task("tasks", "complete", 7)
    assert (completed.code, completed.err) == (DONE, "task 7 is completed; its instance continues\n")


def test_a_task_that_can_t_be_completed_is_reported_with_the_reason(task: Shell) -> None:
    task("tasks", "complete", 7)
    again = task("tasks", "complete", 7, "--json")
    assert (again.code, again.json) == (DONE, {"task_key": 7, "state": "COMPLETED_BEFORE"})

    gone = "insert into shardclock.task_acts (task_key, instance_key, act, actor) values (8, 1, 'CANCELED', 'engine')"
    task.sql(gone)
    assert_code(task("tasks", "complete", 8, "--json"), TASK_CANCELED, state="CANCELED")
    assert_code(task("tasks", "complete", 9, "--json"), UNKNOWN_TASK, state="NOT_FOUND")


def test_tasks_are_listed_by_candidate_and_by_assignee(task: Shell) -> None:
    others = """
        insert into shardclock.tasks
            (task_key, instance_key, token, tenant_id, process_id, node_id, name, assignee, candidate_users)
        values
            (8, 1, 3, 'default', 'p', 'u', 'u', null, '{ann,bob}'),
            (9, 1, 4, 'default', 'p', 'u', 'u', 'ann', '{eve}')
    """
    task.sql(others)

    def listed(*options: str) -> list[int]:
        return [one["task_key"] for one in task("tasks", "list", *options, "--json").json["tasks"]]

    assert listed("--user", "bob") == [8]
    assert listed("--group", "none", "--group", "sales") == [7]
    assert listed("--for-user", "ann") == [8, 9]
    assert listed("--for-user", "eve", "--group", "sales") == [7]
    assert listed("--business-key", "order-42") == [7, 8, 9]
    assert listed("--business-key", "order-43") == []
    assert "order-42" in task("tasks", "list").out
    assert listed("--unassigned") == [7, 8]
    assert listed("--unassigned", "--user", "eve") == []
    assert "ann, bob" in task("tasks", "list", "--user", "ann").out
    refused = task("tasks", "list", "--assignee", "ann", "--unassigned")
    assert refused.code == BAD_INPUT
    assert refused.err == "shardclock: --assignee 'ann' and unassigned exclude each other; give one of the two\n"


def test_a_task_is_shown_with_its_variables_and_its_history(task: Shell) -> None:
    task("tasks", "claim", 7, "--assignee", "ann")

    table, shown = task("tasks", "show", 7), task("tasks", "show", 7, "--json").json

    assert (table.code, shown["state"], shown["assignee"]) == (DONE, "ASSIGNED", "ann")
    assert shown["variables"] == {"order": 42, "who": "one"}
    assert [(act["act"], act["detail"]) for act in shown["acts"]] == [("ASSIGNED", {"assignee": "ann"})]
    _, row, _, _, names, order, who, _, _, _, act = table.out.splitlines()
    assert row.split()[:6] == ["7", "u", "u", "p", "1", "ASSIGNED"]
    assert [line.split() for line in (names, order, who)] == [["name", "value"], ["order", "42"], ["who", '"one"']]
    assert (act.split()[2], act.split()[-1]) == ("ASSIGNED", "ann")

    assert_code(task("tasks", "show", 9, "--json"), UNKNOWN_TASK)
