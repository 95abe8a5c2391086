"""Commands about processes work, and an impossible command is refused in a sentence."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

import shardclock_server.cli.session
from shardclock_server.service.processes import deploy
from shardclock_server.sql.deliveries.notifications import notify_of_signals
from shardclock_server.sql.session import Session
from tests.support.bpmn import job, model
from tests.support.cli_asserts import BAD_INPUT, DONE, NOT_DONE, assert_refused
from tests.support.deliveries import declare
from tests.support.factories import query, value
from tests.support.instances import write_instance
from tests.support.program import Shell

MODEL = model('<startEvent id="s"/><userTask id="u"/><endEvent id="e"/>', connected="s>u u>e")


def begun(shell: Shell) -> None:
    """Insert an instance with key 101, as an engine writes it; its token 3 waits at the task."""

    async def make() -> None:
        async with Session(shell.dsn, application="test") as session:
            (deployed,) = await deploy(session, MODEL, resource="p.bpmn")
        await write_instance(shell.dsn, deployed.definition_key, MODEL)

    asyncio.run(make())


def test_a_start_that_waits_is_shown_with_the_reason(shell: Shell, tmp_path: Path) -> None:
    file = tmp_path / "p.bpmn"
    file.write_bytes(MODEL)
    shell("deploy", file)
    key = shell("processes", "start", "p", "--json").json["instance_key"]
    assert (shell("processes", "show", key).err, shell("processes", "show", key).code) == ("", DONE)

    failures = '[{"reason": "a quota of 1 instances"}]'
    shell.sql("update shardclock.deliveries set failures = $1::jsonb", failures)
    assert shell("processes", "show", key).err == "the start waits: a quota of 1 instances\n"
    assert shell("processes", "show", key, "--json").json["state"] == "STARTING"


def test_the_count_of_running_instances_stops_at_a_thousand_and_reports_this(shell: Shell) -> None:
    async def add(first: int, last: int) -> None:
        await query(
            shell.dsn,
            "insert into shardclock.instances (instance_key, definition_key, version, tenant_id, process_id, state)"
            " select i, d.definition_key, 1, 'default', 'p', '{}'"
            " from generate_series($1::bigint, $2::bigint) i cross join shardclock.definitions d",
            first,
            last,
        )

    begun(shell)
    asyncio.run(add(1_001, 1_998))
    assert " 999 " in shell("processes").out
    asyncio.run(add(2_001, 2_003))
    assert " 1,000+ " in shell("processes", "list").out
    assert shell("processes", "list", "--json").json["processes"][0]["running"] == 1_000


def test_engines_are_notified_of_a_command_s_signals_before_the_command_waits(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[int] = []

    async def telling(session: Session) -> bool:
        told.append(await value(shell.dsn, "select count(*) from shardclock.deliveries"))
        return await notify_of_signals(session)

    monkeypatch.setattr(shardclock_server.cli.session, "notify_of_signals", telling)
    begun(shell)
    assert shell("processes", "start", "p").code == DONE
    assert told == [1]
    waited = shell("processes", "start", "p", "--wait", 0.1, "--json")
    assert (waited.code, "steps" in waited.json) == (NOT_DONE, False), "nobody has read them"
    assert waited.err.endswith(" has not ended within 0.1 s; the instance continues\n")
    assert told == [1, 2]
    assert shell("processes", "cancel", 101).code == DONE
    assert told == [1, 2, 3]


def test_a_deployed_model_can_be_read_back_even_after_its_deletion(shell: Shell, tmp_path: Path) -> None:
    begun(shell)
    key = shell("processes", "list", "--json").json["processes"][0]["definition_key"]
    shell("processes", "delete", key)

    assert shell("processes", "model", key).out.encode() == MODEL
    assert shell("processes", "model", key, "-o", tmp_path / "p.bpmn").out == ""
    assert (tmp_path / "p.bpmn").read_bytes() == MODEL
    nowhere = shell("processes", "model", key, "--output", tmp_path / "none" / "p.bpmn")
    assert (nowhere.code, "p.bpmn: No such file or directory; name another" in nowhere.err) == (BAD_INPUT, True)
    assert_refused(shell("processes", "model", 7), "definition 7 is unknown", code=NOT_DONE)


def test_a_deployment_reports_undeclared_task_types(shell: Shell, tmp_path: Path) -> None:
    file = tmp_path / "order.bpmn"
    file.write_bytes(model('<startEvent id="s"/>' + job("order.pak"), connected="s>order.pak"))
    asyncio.run(declare(shell.dsn, "order.pack"))

    told = shell("deploy", file, "--json")

    assert (told.code, told.json[0]["undeclared"]) == (DONE, ["order.pak"])
    assert told.err == (
        "note: no app has declared the handler order.pak (did you mean order.pack?):"
        " until one does, a program must take it, over HTTP or in SQL\n"
    )
    asyncio.run(declare(shell.dsn, "order.pack", "order.pak"))
    assert (shell("deploy", file).err, shell("deploy", file, "--json").json[0]["undeclared"]) == ("", [])


def test_an_instance_is_listed_by_its_business_key(shell: Shell) -> None:
    begun(shell)
    named = "insert into shardclock.business_keys values (101, 'default', 'order-42')"
    shell.sql(named)
    assert (
        shell("processes", "instances", "--business-key", "order-42", "--json").json["instances"][0]["instance_key"]
        == 101
    )
    assert " order-42 " in shell("processes", "instances").out
    assert " order-42 " in shell("processes", "show", 101).out
    none = shell("processes", "instances", "--business-key", "order-43")
    assert (none.code, none.out) == (DONE, "")

    started = shell("processes", "start", "p", "--business-key", "order-43", "--json").json["instance_key"]

    assert shell("processes", "show", started, "--json").json["business_key"] == "order-43"
    wrong = shell("processes", "start", "p", "--business-key", "")
    assert (wrong.code, wrong.err) == (
        BAD_INPUT,
        "shardclock: --business-key '' is refused: give 1 to 255 characters\n",
    )
