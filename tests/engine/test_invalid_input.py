"""Invalid input of a client is refused soon, in one sentence, and writes no row."""

from __future__ import annotations

import asyncpg
import httpx2
import pytest

from shardclock_server.bpmn.model import InvalidModel
from shardclock_server.service import processes
from shardclock_server.sql.processes import instances, tasks
from shardclock_server.sql.session import StatementRefused
from tests.support.bpmn import HEAD, SHARED, timer
from tests.support.bpmn_cluster import Processes, running

START, END = '<startEvent id="s"/>', '<endEvent id="e"/>'
MODELS = {
    "a file of the server": (
        f'<!DOCTYPE x [<!ENTITY f SYSTEM "/etc/passwd">]>{HEAD}&f;</definitions>'.encode(),
        "the model has a DOCTYPE, which could name other files; remove it",
    ),
    "50 MB": (
        b"<a>" + b" " * 50_000_000 + b"</a>",
        "the model has 50,000,007 bytes; at most 4,194,304 are allowed: remove parts that are not executed",
    ),
}


async def assert_nothing_is_kept(it: Processes) -> None:
    for table in ("definitions", "timers", "subscriptions", "deliveries", "instances"):
        assert await it.query(f"select 1 from shardclock.{table}") == [], table


@pytest.mark.parametrize("what", MODELS)
async def test_an_invalid_model_is_refused_in_one_sentence_and_leaves_no_rows(what: str) -> None:
    text, sentence = MODELS[what]
    async with running() as it, httpx2.AsyncClient(base_url=it.cluster.url) as client:
        with pytest.raises(InvalidModel) as refused:
            await processes.deploy(it.session, text, resource="bad.bpmn")
        assert str(refused.value) == sentence

        answer = await client.post("/v1/processes", content=text, headers={"content-type": "application/xml"})
        too_large = len(text) > 4 * 2**20
        assert answer.status_code == (413 if too_large else 422)
        assert answer.json()["detail"] == (
            "the body is longer than 4,194,304 bytes; send a smaller body" if too_large else sentence
        )
        await assert_nothing_is_kept(it)


async def test_ids_of_the_maximum_length_work() -> None:
    long, longest = "n" * 198, "b" * 200  # the flow's id, `s-` and the task's id, has 200 characters, too
    task = f'<userTask id="{long}"/><boundaryEvent id="{longest}" attachedToRef="{long}" cancelActivity="false">'
    async with running() as it:
        await it.deploy(
            START + task + timer("timeCycle", "R2/PT1H") + "</boundaryEvent>",
            connected=f"s>{long}",
            process_id="p" * 200,
        )
        key = await it.start("p" * 200)
        await it.advance("PT2H")
        assert (await it.history(key)).count(f"{longest}-") == 2
        (task_of_it,) = await tasks.find_tasks(it.session)
        assert await tasks.complete_task(it.session, task_of_it.task_key, variables={}) == "COMPLETED"
        await it.settle()
        assert await it.state(key) == "COMPLETED"


async def test_variables_of_10_mb_are_refused_from_each_source() -> None:
    large = {"text": "x" * 10_000_000}
    async with running() as it, httpx2.AsyncClient(base_url=it.cluster.url) as client:
        await it.deploy(START + '<userTask id="u"/>' + END, connected="s>u u>e")
        for start in (it.start("p", **large), processes.start(it.session, "p", variables=large)):
            with pytest.raises(StatementRefused, match=r"variables have 10\d+ bytes: the limit is 1048576 \(1 MiB\)"):
                await start
        answer = await client.post("/v1/processes/p/start", json={"variables": large})
        assert (answer.status_code, answer.json()["detail"]) == (
            413, "the body is longer than 131,072 bytes; send a smaller body",
        )  # fmt: skip
        assert await it.query("select 1 from shardclock.deliveries") == []

        key = await it.start()
        (task,) = await tasks.find_tasks(it.session)
        for sent in (
            tasks.complete_task(it.session, task.task_key, variables=large),
            instances.set_variables(it.session, key, large),
            instances.publish_message(
                it.session, "m", correlation="1", variables=large, tenant_id="default", time_to_live_s=60.0
            ),
            instances.throw_signal(it.session, "g", variables=large, tenant_id="default"),
        ):
            with pytest.raises(StatementRefused, match="the limit is 1048576"):
                await sent
        for table in ("deliveries", "messages"):
            assert await it.query(f"select 1 from shardclock.{table}") == [], table
        assert await tasks.find_tasks(it.session) == [task]
        assert processes.variables_of(await it.see(key)) == {}


async def sentence_of(it: Processes, key: int) -> str:
    (incident,) = (await it.see(key)).waits["incident_list"]
    return str(incident["sentence"])


@pytest.mark.parametrize(
    ("expression", "sentence"),
    [
        ("for i in 1..1000000000 return i", "the expression makes a list of 1,000,000,000 items"),
        ('matches("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa!", "(a|a)*(a|a)*(a|aa)+b")', ""),
    ],
)
async def test_an_endless_expression_becomes_an_incident_and_delays_no_other_instance(
    expression: str, sentence: str
) -> None:
    escaped = expression.replace('"', "&quot;")
    script = (
        '<scriptTask id="x"><extensionElements>'
        f'<zeebe:script expression="={escaped}" resultVariable="r"/></extensionElements></scriptTask>'
    )
    async with running() as it:
        await it.deploy(START + script + END, connected="s>x x>e")
        await it.deploy(START + END, connected="s>e", process_id="good")
        bad, good = await it.start(), await it.start("good")
        if sentence:
            assert (await sentence_of(it, bad)).startswith(sentence)
        assert await it.state(good) == "COMPLETED"


async def test_a_correlation_key_over_the_limit_is_an_incident_with_a_sentence() -> None:
    wait = '<receiveTask id="w" messageRef="m"/>'
    async with running() as it:
        await it.deploy(START + wait, connected="s>w", beside=SHARED)
        fits, long = await it.start(order="k" * 200), await it.start(order="".join(map(chr, range(0x4E00, 0x5E00))))
        assert (await it.see(fits)).waits["incident_list"] == []
        assert await sentence_of(it, long) == (
            "the correlation key of w has 4,096 characters; the limit is 200; shorten it"
        )


@pytest.mark.parametrize("number", ["1e5000", "-1e309", "[1e400]"])
async def test_a_number_outside_of_double_precision_is_refused_in_sql_as_over_http(number: str) -> None:
    async with running() as it:
        await it.deploy(START + '<userTask id="u"/>' + END, connected="s>u u>e")
        key = await it.start()
        (task,) = await tasks.find_tasks(it.session)
        complete = "select shardclock.complete_task($1, $2::jsonb) as state"
        with pytest.raises(asyncpg.InvalidParameterValueError, match="no double holds: write it as a text"):
            await it.query(complete, task.task_key, f'{{"n": {number}}}')

        digits = "1" * 400
        held = f'{{"n": 1e308, "f": 0.{digits}, "t": "{digits}", "q": "\\"{digits}"}}'
        assert await it.query(complete, task.task_key, held) == [{"state": "COMPLETED"}]
        await it.settle()
        assert await it.state(key) == "COMPLETED"


async def test_a_computed_assignee_that_is_too_long_immediately_becomes_an_incident() -> None:
    assigned = '<extensionElements><zeebe:assignmentDefinition assignee="=a"/></extensionElements>'
    async with running() as it:
        await it.deploy(f'{START}<userTask id="u">{assigned}</userTask>', connected="s>u")
        key = await it.start(a="x" * 201)
        await it.settle()

        (incident,) = (await it.see(key)).waits["incident_list"]
        assert incident["sentence"].endswith("has 201 characters; at most 200 are allowed; shorten it")
