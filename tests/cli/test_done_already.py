"""A verb with nothing left to do reports this, and ends with exit code 0."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from shardclock_server.service.processes import deploy
from shardclock_server.sql.session import Session
from tests.support.bpmn import model
from tests.support.cli_asserts import DONE
from tests.support.deliveries import add_deliveries
from tests.support.job_runs import declare
from tests.support.jobs import job_spec
from tests.support.program import Shell

INSTANCE = """
insert into shardclock.instances (instance_key, definition_key, version, tenant_id, process_id, state)
values (1, 1, 1, 'default', 'p', '{}')
"""
TASK = """
insert into shardclock.tasks (task_key, instance_key, token, tenant_id, process_id, node_id, name)
values (7, 1, 2, 'default', 'p', 'u', 'u')
"""


def job(shell: Shell) -> object:
    asyncio.run(declare(shell.dsn, job_spec("report")))
    return "report"


def endpoint(shell: Shell) -> object:
    shell("endpoints", "add", "billing", "--url", "https://example.com/")
    return "billing"


def key(shell: Shell) -> object:
    return shell("keys", "add", "webshop", "--scope", "read", "--json").json["prefix"]


def timer(shell: Shell) -> object:
    return shell("schedule", "--in", "PT1H", "--json").json["timer_key"]


def delivery(shell: Shell) -> object:
    asyncio.run(add_deliveries(shell.dsn, 1))
    return shell("deliveries", "--json").json["deliveries"][0]["timer_key"]


def definition(shell: Shell) -> object:
    async def make() -> int:
        async with Session(shell.dsn, application="test") as session:
            (deployed,) = await deploy(session, model('<startEvent id="s"/>'), resource="p.bpmn")
        return deployed.definition_key

    return asyncio.run(make())


def task(shell: Shell) -> object:
    shell.sql(INSTANCE)
    shell.sql(TASK)
    return 7


def canceled(shell: Shell) -> object:
    shell.sql(INSTANCE)
    shell.sql("update shardclock.instances set outcome = 'CANCELED', ended_at = now(), state = null")
    return 1


def nothing(_: Shell) -> object:
    return "--yes"


@pytest.mark.parametrize(
    ("words", "made", "said"),
    [
        ("jobs disable", job, "DISABLED"),
        ("jobs enable", job, "SCHEDULED"),
        ("release", nothing, "nothing to release: the database is not on hold"),
        ("pause", timer, "PAUSED"),
        ("cancel", timer, "CANCELED"),
        ("endpoints disable", endpoint, "was disabled already"),
        ("endpoints enable", endpoint, "was enabled already"),
        ("deliveries cancel", delivery, "is DISCARDED"),
        ("keys revoke", key, "was revoked already"),
        ("processes delete", definition, "was deleted already"),
        ("processes cancel", canceled, "was cancelled already"),
        ("tasks complete", task, "was completed already"),
    ],
)
def test_a_verb_without_remaining_work_succeeds(
    shell: Shell, words: str, made: Callable[[Shell], object], said: str
) -> None:
    which = made(shell)
    shell(*words.split(), which)

    again = shell(*words.split(), which)

    assert again.code == DONE
    assert said in again.out + again.err
