"""Incidents are listed with their sentences, and resolved one by one, or by a filter."""

from __future__ import annotations

import asyncio

import pytest

from shardclock.api.refusals.processes import UNKNOWN_INCIDENT
from shardclock_server.service.processes import deploy
from shardclock_server.sql.session import Session
from tests.support.bpmn import model
from tests.support.cli_asserts import DONE, NOT_DONE, assert_code, assert_refused
from tests.support.factories import query
from tests.support.program import Shell

WAIT = '<startEvent id="s"/><userTask id="u"/>'
# Three stopped tokens, in the form that an engine writes, and a signal that no engine could take.
STOPPED = """
with begun as (
    insert into shardclock.instances (instance_key, definition_key, version, tenant_id, process_id, state)
    select i, d.definition_key, 1, 'default', 'p', '{}'
    from generate_series(101, 104) i cross join shardclock.definitions d
    returning instance_key
)
insert into shardclock.incidents (instance_key, token, signal_key, node_id, sentence, raised_at)
select
    b.instance_key, 2, case b.instance_key when 104 then 9 else 0 end, 'u',
    case b.instance_key when 103 then 'no stock' else 'the card is expired' end,
    now() - (200 - b.instance_key) * interval '1 s'
from begun b
"""


@pytest.fixture
def stopped(shell: Shell) -> Shell:
    async def make() -> None:
        async with Session(shell.dsn, application="test") as session:
            await deploy(session, model(WAIT, connected="s>u"), resource="p.bpmn")
        await query(shell.dsn, STOPPED)

    asyncio.run(make())
    return shell


def sent(shell: Shell) -> list[int]:
    rows = shell.sql("select process_instance_key as key from shardclock.deliveries order by 1")
    return [row["key"] for row in rows]


def test_incidents_are_listed_the_newest_first(stopped: Shell) -> None:
    listed = stopped("processes", "incidents", "--json").json["incidents"]
    assert [one["instance_key"] for one in listed] == [104, 103, 102, 101]
    shown = stopped("processes", "incidents", "--containing", "STOCK")
    assert (shown.code, "no stock" in shown.out, "expired" in shown.out) == (DONE, True, False)
    assert "there are no such incidents" in stopped("processes", "incidents", "--process", "q").err


def test_many_incidents_are_resolved_with_yes_and_counted_without_yes(stopped: Shell) -> None:
    words = ("processes", "resolve", "--all", "--process", "p", "--containing", "expired")
    would = stopped(*words)
    assert would.code == NOT_DONE
    assert would.err.strip() == "2 incidents would be resolved, at u; nothing was changed; add --yes to do it"
    assert sent(stopped) == []
    some = stopped(*words, "--limit", 1, "--yes", "--json").json
    assert some == {
        "tokens": [{"instance_key": 102, "token": 2}],
        "message": "1 incident resolved",
        "done": True,
        "more": True,
        "again_in_s": 0,
    }
    assert stopped("processes", "resolve", "--all", "--yes").err.strip() == "3 incidents resolved"
    assert sent(stopped) == [101, 102, 102, 103], "an engine has not resolved the first one yet"
    assert stopped("processes", "resolve", "--all", "--version", 2).code == NOT_DONE
    assert [act["verb"] for act in stopped("audit", "--json").json["acts"]] == ["processes resolve"] * 2


def test_an_incident_is_resolved_by_instance_and_token(stopped: Shell) -> None:
    assert stopped("processes", "resolve", 101, 2).code == DONE
    assert_code(stopped("processes", "resolve", 101, 3, "--json"), UNKNOWN_INCIDENT)
    assert sent(stopped) == [101]


def test_the_options_for_one_incident_and_for_many_are_refused_together(stopped: Shell) -> None:
    for words in ((), (101,), (101, 2, "--all"), (101, 2, "--containing", "x")):
        assert_refused(stopped("processes", "resolve", *words), "choose either one incident")
