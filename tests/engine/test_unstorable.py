"""A text, a depth or a key that Postgres refuses becomes an incident of the instance that wrote it."""

from __future__ import annotations

import pytest

from shardclock_server.sql.processes import incidents, instances
from shardclock_server.sql.processes.incidents import IncidentFilter
from tests.support.bpmn_cluster import Processes, running

START = '<startEvent id="s"/>'
TASK = (
    '<userTask id="u"><extensionElements><zeebe:assignmentDefinition assignee="=who"/></extensionElements></userTask>'
)
# This fault represents all rules of Postgres that no earlier check covers.
REFUSE = "alter table shardclock.tasks add constraint is_a_person check (assignee <> 'robot')"


def script(expression: str) -> str:
    work = f'<zeebe:script expression="={expression}" resultVariable="x"/>'
    return f'{START}<scriptTask id="t"><extensionElements>{work}</extensionElements></scriptTask>'


async def sentence_of(it: Processes, key: int) -> tuple[str, str]:
    """Let the engine try the signal until it gives up; return the state and the sentence of the only incident."""
    for _ in range(6):
        await it.advance("PT1S")
    found = await it.see(key)
    (incident,) = found.waits["incident_list"]
    return found.found.state, incident["sentence"]


@pytest.mark.parametrize(
    ("expression", "why"),
    [
        ("&quot;\\u0000&quot;", "contains a NUL character"),
        ("[1, {a: &quot;x\\u0000&quot;}]", "contains a NUL character"),
        ("{&quot;a\\u0000&quot;: 1}", "contains a NUL character"),
        ("for i in 1..100 return if i = 1 then [1] else [partial[-1]]", "is nested deeper than 100 levels"),
    ],
)
async def test_a_result_that_postgres_refuses_is_an_incident_of_its_element(expression: str, why: str) -> None:
    async with running() as it:
        await it.deploy(script(expression), connected="s>t")
        key = await it.start()

        (incident,) = (await it.see(key)).waits["incident_list"]
        assert incident["node_id"] == "t"
        assert why in incident["sentence"]
        assert await it.query("select 1 from shardclock.dead_letters") == []


async def test_the_sentence_of_an_assertion_may_hold_any_character() -> None:
    async with running() as it:
        await it.deploy(script("assert(&quot;x\\u0000&quot;, false, &quot;no\\u0000&quot;)"), connected="s>t")
        key = await it.start()
        (incident,) = (await it.see(key)).waits["incident_list"]
        assert (incident["node_id"], incident["sentence"]) == ("t", "no?")


async def test_a_start_that_postgres_refuses_is_an_incident_that_is_resolved() -> None:
    async with running() as it:
        await it.query(REFUSE)
        await it.deploy(START + TASK, connected="s>u")
        key = await it.start(who="robot")
        other = await it.start(who="ann")

        state, sentence = await sentence_of(it, key)
        assert state == "RUNNING"
        assert sentence.startswith("can't write the start: new row ")
        assert await it.query("select 1 from shardclock.dead_letters") == []
        assert (await it.see(other)).waits["tasks"][0]["assignee"] == "ann"
        (listed,) = await incidents.find_incidents(it.session, IncidentFilter(), limit=9)
        assert listed.instance_key == key

        assert await instances.set_variables(it.session, key, {"who": "bob"})
        assert await instances.resolve_incident(it.session, key, 1)
        await it.settle()
        found = await it.see(key)
        assert found.waits["incident_list"] == []
        assert found.waits["tasks"][0]["assignee"] == "bob"


async def test_a_start_by_a_message_that_postgres_refuses_is_also_an_incident() -> None:
    begins = '<startEvent id="s"><messageEventDefinition messageRef="m"/></startEvent>'
    async with running() as it:
        await it.query(REFUSE)
        await it.deploy(begins + TASK, connected="s>u", beside='<message id="m" name="paid"/>')
        await instances.publish_message(
            it.session, "paid", correlation="", variables={"who": "robot"}, tenant_id="default"
        )
        for _ in range(6):
            await it.advance("PT1S")
        (found,) = await instances.find_instances(it.session)
        assert (found.state, found.incidents) == ("RUNNING", 1)

        assert await instances.set_variables(it.session, found.instance_key, {"who": "bob"})
        assert await instances.resolve_incident(it.session, found.instance_key, 1)
        await it.settle()
        assert (await it.see(found.instance_key)).waits["tasks"][0]["assignee"] == "bob"
