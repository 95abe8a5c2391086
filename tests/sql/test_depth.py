"""SQL, Python and the client have the same depth limit of JSON; each SQL function refuses deeper JSON in a sentence."""

from __future__ import annotations

import json
from contextlib import nullcontext

import asyncpg
import pytest

from shardclock.jsonb import DEPTH_MAX
from shardclock_server.service import processes
from shardclock_server.sql.processes.variables import write_variables
from shardclock_server.sql.session import Session
from shardclock_server.timers.refusal import Refusal
from tests.support.bpmn import model
from tests.support.factories import query, value

SENTENCE = r"is nested deeper than 100 levels; flatten it"
TASK = model('<startEvent id="s"/><userTask id="u"/>', connected="s>u")


def nested(levels: int, form: str = "objects") -> str:
    opened, closed = {"objects": ('{"a":', "}"), "lists": ("[", "]")}[form]
    return opened * levels + "1" + closed * levels


def hollow(levels: int) -> str:
    """Write nested lists; the innermost is empty."""
    return "[" * levels + "]" * levels


@pytest.mark.parametrize("text", [nested(DEPTH_MAX), nested(DEPTH_MAX, "lists"), hollow(DEPTH_MAX), "1", "null"])
async def test_the_depth_that_python_accepts_is_not_too_deep(dsn: str, text: str) -> None:
    assert await value(dsn, "select shardclock.is_too_deep($1::jsonb)", text) is False


@pytest.mark.parametrize("levels", [DEPTH_MAX + 1, 300, 980, 3_000])
@pytest.mark.parametrize("write", [nested, hollow, lambda levels: f'[1, {{"b": [], "c": {nested(levels - 2)}}}]'])
async def test_one_level_more_is_too_deep(dsn: str, write: object, levels: int) -> None:
    assert await value(dsn, "select shardclock.is_too_deep($1::jsonb)", write(levels)) is True  # type: ignore[operator]


VERBS = {
    "start": "select shardclock.start_process('p', $1::jsonb)",
    "publish": "select shardclock.publish_message('m', '', $1::jsonb)",
    "keep": "select shardclock.publish_message('m', '', $1::jsonb, time_to_live => 'PT1H')",
    "throw": "select shardclock.throw_signal('s', $1::jsonb)",
    "variables": "select shardclock.set_variables(7, $1::jsonb)",
    "complete": "select shardclock.complete_task(7, $1::jsonb)",
    "service task": "select shardclock.complete_service_task(7, 1, $1::jsonb)",
    "error": "select shardclock.throw_service_task_error(7, 1, 'E', variables => $1::jsonb)",
    "timer": "select shardclock.schedule_timer(delay => 'PT1H', payload => $1::jsonb)",
    "named": "select shardclock.ensure_timer(name => 'n', delay => 'PT1H', payload => $1::jsonb)",
    "row": "insert into shardclock.timers (due_date, payload) values (now(), $1::jsonb)",
    "configure": "select shardclock.configure_job('j', $1::jsonb)",
    "run": "select shardclock.run_job('j', $1::jsonb)",
    "add": "select shardclock.add_job('k', 'j', config => $1::jsonb)",
    "apply": """select shardclock.apply_job(
        jsonb_build_object('name', 'k', 'function', 'a:b', 'config', $1::jsonb))""",
}
JOB = """
    insert into shardclock.jobs (name, function, zone, missed, overlap, priority, policy, declared)
    values ('j', 'a:b', 'UTC', 'fire_once', 'skip', 2, '{}', '{}')
"""


@pytest.mark.parametrize("verb", VERBS)
async def test_each_way_in_refuses_too_deep_json(dsn: str, verb: str) -> None:
    await query(dsn, JOB)
    async with Session(dsn, application="test") as session:
        await processes.deploy(session, TASK, resource="p.bpmn")
    with pytest.raises(asyncpg.PostgresError, match=SENTENCE) as refused:
        await query(dsn, VERBS[verb], nested(DEPTH_MAX + 1))
    assert refused.value.sqlstate in ("22023", "23514")


@pytest.mark.parametrize("lists", [DEPTH_MAX - 1, DEPTH_MAX])
async def test_the_shortest_variables_that_are_too_deep_are_refused(dsn: str, lists: int) -> None:
    text = '{"":' + hollow(lists) + "}"
    refused = pytest.raises(asyncpg.PostgresError, match=SENTENCE) if lists == DEPTH_MAX else nullcontext()
    with refused:
        await query(dsn, "select shardclock.check_variables($1::jsonb)", text)


async def test_python_refuses_more_levels_in_the_same_words() -> None:
    write_variables(json.loads(nested(DEPTH_MAX)))
    for levels in (DEPTH_MAX + 1, 980, 5_000):
        deep: dict[str, object] = {}
        for _ in range(levels):
            deep = {"a": deep}
        with pytest.raises(Refusal, match=SENTENCE):
            write_variables(deep)
