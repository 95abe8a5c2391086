"""Test the waits on the pages of a process and an instance: the elements, the counts, and the begins of the waits."""

from __future__ import annotations

import html
import re
from datetime import UTC, datetime

import pytest

from shardclock_server.gateway.console.pages import processes
from shardclock_server.sql.processes.waits import WaitingPlace, waits_of_definition
from shardclock_server.sql.session import Session
from tests.support.bpmn import model
from tests.support.console import XSS, Browser
from tests.support.factories import query
from tests.support.gateways import Api

AT = datetime(2026, 3, 1, 8, tzinfo=UTC)
# Instances 1 to 40; instance n waits since n minutes after AT. The last two instances have ended, and belong to another
# version.
INSTANCES = """
    insert into shardclock.instances
        (instance_key, definition_key, version, tenant_id, process_id, state, outcome, ended_at)
    select
        n, case when n = 40 then 0 else $1::bigint end, 1, 'default', 'p', case when n <> 39 then '{}' end,
        case when n = 39 then 'COMPLETED' end, case when n = 39 then now() end
    from generate_series(1, 40) n
"""
BUSINESS_KEYS = """
    insert into shardclock.business_keys (instance_key, tenant_id, business_key)
    select n, 'default', 'order-' || n from generate_series(1, 40) n
"""
# Instances 11 to 40 wait for the message; the message of the newest instance has the earliest time.
SUBSCRIPTIONS = """
    insert into shardclock.subscriptions
        (instance_key, token, opened_at, is_once, kind, tenant_id, name, correlation, process_id, node_id)
    select
        n, 3, $1::timestamptz + case when n = 38 then 0 else n end * interval '1 minute', true, 'message', 'default',
        'paid', 'k' || n, 'p', 'wait-for-money'
    from generate_series(11, 40) n
"""
TASKS = """
    insert into shardclock.tasks
        (task_key, instance_key, token, created_at, completed_at, tenant_id, process_id, node_id, name)
    select 1000 + n, n, 3, $1::timestamptz + n * interval '1 minute', case when n = 1 then now() end, 'default', 'p',
        'approve', $2::text
    from generate_series(1, 5) n
"""
TIMERS = """
    insert into shardclock.timers
        (timer_key, process_instance_key, element_instance_key, due_date, created_at, target, target_element_id)
    select 2000 + n, n, 3, now() + interval '1 day', $1::timestamptz + n * interval '1 minute', 'process:instance',
        'too-late'
    from generate_series(2, 12) n
"""
SERVICE_TASKS = """
    insert into shardclock.deliveries (
        timer_key, process_instance_key, element_instance_key, next_attempt_at, due_date, created_at, occurrence, slot,
        tenant_id, timer_type, target, target_element_id
    )
    select 3000 + n, n, 4, now(), now(), $1::timestamptz + n * interval '1 minute', 1, 1, 'default', 'SERVICE_TASK',
        'order.pack', 'pack'
    from generate_series(6, 8) n
"""
CHILDREN = """
    insert into shardclock.instances
        (instance_key, definition_key, parent_key, parent_token, version, started_at, tenant_id, process_id, state)
    select 100 + n, 0, n, 5, 1, $1::timestamptz + n * interval '1 minute', 'default', 'ship', '{}'
    from generate_series(9, 10) n
"""
STEPS = """
    insert into shardclock.instance_steps (instance_key, version, holder, signals, passes)
    select 9, n, 1, '[]', case when n = 1 then '[[4, "other", "entered"], [5, "send", "entered"]]' else '[]' end::jsonb
    from generate_series(1, 3) n
"""
INCIDENTS = """
    insert into shardclock.incidents (instance_key, token, node_id, sentence, raised_at)
    values (6, 4, 'pack', 'no', $1::timestamptz)
"""
# The test's own count of the message's waits, without a limit.
COUNTED = """
    select count(distinct s.instance_key) as instances, min(s.opened_at) as since
    from shardclock.subscriptions s
    join shardclock.instances i on i.instance_key = s.instance_key and i.definition_key = $1 and i.ended_at is null
"""


async def fill(dsn: str, api: Api, task: str = "Approve") -> int:
    """Write running instances of a new process with each kind of wait; return the definition's key."""
    text = model('<startEvent id="s"/><userTask id="u"/>', connected="s>u")
    deployed = await api.deploy(text)
    key: int = deployed.json["processes"][0]["definition_key"]
    await query(dsn, INSTANCES, key)
    await query(dsn, BUSINESS_KEYS)
    await query(dsn, TASKS, AT, task)
    for rows in (SUBSCRIPTIONS, TIMERS, SERVICE_TASKS, CHILDREN, INCIDENTS):
        await query(dsn, rows, AT)
    await query(dsn, STEPS)
    return key


def rows_of(page: str) -> list[list[str]]:
    """Return the cells of the table of waits, without the distances of the moments."""
    table = page.split("Where the instances are")[1]
    rows = re.findall(r"<tr><th scope=\"row\">.*?</tr>", table, re.DOTALL)
    plain = [re.sub(r'<span class="faint">.*?</span>', "", row) for row in rows]
    return [[re.sub(r"<[^>]*>", "", it).strip() for it in re.split(r"</t[hd]>", row)[:-1]] for row in plain]


async def test_a_process_shows_for_each_wait_its_instances_and_the_one_that_has_waited_longest(
    dsn: str, api: Api, browser: Browser
) -> None:
    key = await fill(dsn, api)
    (counted,) = await query(dsn, COUNTED, key)

    shown = await browser.get(f"/processes/{key}")

    assert rows_of(shown.text) == [
        ["pack", "incident", "1", "2026-03-01 08:00:00", "6", "order-6"],
        ["wait-for-money", "message paid", str(counted["instances"]), f"{counted['since']:%F %T}", "38", "order-38"],
        ["approve", "task Approve", "4", "2026-03-01 08:02:00", "2", "order-2"],
        ["too-late", "timer", "11", "2026-03-01 08:02:00", "2", "order-2"],
        ["pack", "service task order.pack", "3", "2026-03-01 08:06:00", "6", "order-6"],
        ["send", "call ship", "1", "2026-03-01 08:09:00", "9", "order-9"],
        ["–", "call ship", "1", "2026-03-01 08:10:00", "10", "order-10"],
    ]
    assert counted["instances"] == 28, "of 30: one instance has ended, and one is of another version"
    assert 'href="/console/instances/38"' in shown.text
    assert "at least" not in shown.main
    assert "data-live" not in shown.text, "an open page repeats no count of many instances"


async def test_each_wait_leads_to_the_list_of_its_instances_with_the_begins_of_their_waits(
    dsn: str, api: Api, browser: Browser
) -> None:
    key = await fill(dsn, api)
    shown = await browser.get(f"/processes/{key}")
    links = {html.unescape(it) for it in re.findall(r'href="/console(/instances\?[^"]*node_id=[^"]*)"', shown.text)}
    assert {it.rpartition("=")[2] for it in links} == {"pack", "wait-for-money", "approve", "too-late", "send"}

    (lead,) = (it for it in links if it.endswith("approve"))
    listed = await browser.get(lead)

    rows = re.findall(r'<tr>\s*<th scope="row"><a href="[^"]*">(\d+)</a>.*?</tr>', listed.text, re.DOTALL)
    assert rows == ["2", "3", "4", "5"]
    assert "Waits since" in listed.main
    assert "2 RUNNING p 1 order-2" in listed.main
    assert "2026-03-01 08:02:00" in listed.main
    wrong = await browser.get("/instances?node_id=approve")
    assert (wrong.status, "node_id needs the definition_key" in wrong.main) == (422, True)


async def test_a_page_without_a_match_leads_to_the_next_part(
    dsn: str, api: Api, browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shardclock_server.sql.processes.waits.INSTANCES_READ_MAX", 4)
    key = await fill(dsn, api)

    shown, clicks = await browser.get(f"/instances?definition_key={key}&node_id=pack"), 0
    while "order-6" not in shown.main:
        (lead,) = re.findall(r'href="/console(/instances\?[^"]*after=[^"]*)">Search on', shown.text)
        shown, clicks = await browser.get(html.unescape(lead)), clicks + 1

    assert clicks == 1


async def test_http_lists_the_instances_that_wait_at_an_element(dsn: str, api: Api) -> None:
    key = await fill(dsn, api)

    first = (await api.get(f"/v1/instances?definition_key={key}&node_id=wait-for-money&limit=2")).json
    rest = (await api.get(f"/v1/instances?definition_key={key}&node_id=wait-for-money&after={first['next']}")).json
    plain = (await api.get("/v1/instances?limit=1")).json

    assert [(it["instance_key"], it["since"]) for it in first["instances"]] == [
        (11, "2026-03-01T08:11:00Z"), (12, "2026-03-01T08:12:00Z"),
    ]  # fmt: skip
    assert [it["instance_key"] for it in rest["instances"]] == list(range(13, 39))
    assert (rest["next"], plain["instances"][0]["since"]) == (None, None)
    refused = await api.get("/v1/instances?node_id=wait-for-money")
    refused.assert_problem("invalid_node_id", 422, "needs the definition_key")


async def test_a_process_without_instances_says_that_none_waits(api: Api, browser: Browser) -> None:
    text = model('<startEvent id="s"/><userTask id="u"/>', connected="s>u")
    deployed = await api.deploy(text)
    key = deployed.json["processes"][0]["definition_key"]

    assert "No instance of this version waits." in (await browser.get(f"/processes/{key}")).main


async def test_the_names_of_waits_are_escaped(dsn: str, api: Api, browser: Browser) -> None:
    key = await fill(dsn, api, XSS)

    (await browser.get(f"/processes/{key}")).assert_escapes()


async def test_above_the_limit_the_oldest_instances_are_read_and_the_counts_are_lower_bounds(
    dsn: str, api: Api, browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = await fill(dsn, api)
    async with Session(dsn, application="test") as session:
        places = await waits_of_definition(session, key, instances_max=4)
    assert [(it.kind, it.instances, it.instance_key, it.instances_read) for it in places] == [
        ("task", 3, 2, 4), ("timer", 3, 2, 4),
    ]  # fmt: skip

    async def read(*_: object) -> list[WaitingPlace]:
        return places

    monkeypatch.setattr(processes, "waits_of_definition", read)
    monkeypatch.setattr(processes, "INSTANCES_READ_MAX", 4)
    shown = await browser.get(f"/processes/{key}")

    assert "The counts are of the 4 oldest running instances; there may be more." in shown.main
    assert [row[2] for row in rows_of(shown.text)] == ["at least 3", "at least 3"]


@pytest.mark.parametrize(
    ("instance_key", "begin"),
    [
        (2, "approve: task Approve , since 2026-03-01 08:02:00"),
        (6, "pack: service task order.pack, since 2026-03-01 08:06:00"),
        (9, "process ship: instance 109 , since 2026-03-01 08:09:00"),
        (20, "wait-for-money: message paid, k20, since 2026-03-01 08:20:00"),
        (3, "2003 too-late 2026-03-01 08:03:00"),
    ],
)
async def test_an_instance_shows_the_begin_of_each_wait(
    dsn: str, api: Api, browser: Browser, instance_key: int, begin: str
) -> None:
    await fill(dsn, api)
    state = '{"f":1,"k":2,"c":0,"s":null,"t":[]}'
    await query(dsn, "update shardclock.instances set state = $1 where ended_at is null", state)

    assert begin in (await browser.get(f"/instances/{instance_key}")).main
