"""What clients do over HTTP with instances and tasks tells by which API key it was done."""

from __future__ import annotations

import json

from shardclock_server.service import keys as use_cases
from shardclock_server.sql.keys.keys import WantedKey
from shardclock_server.sql.session import Session
from tests.support.bpmn import model
from tests.support.factories import query
from tests.support.gateways import Api
from tests.support.sql_client import session as session_of

MODEL = model('<startEvent id="s"/><userTask id="u"/>', connected="s>u")
TASK = """
with i as (
    insert into shardclock.instances (instance_key, definition_key, version, tenant_id, process_id, state)
    values (101, 1, 1, 'default', 'p', '{}')
)
insert into shardclock.tasks (task_key, instance_key, token, tenant_id, process_id, node_id, name)
values (7, 101, 3, 'default', 'p', 'u', 'u')
"""


async def key_of(dsn: str, name: str) -> tuple[str, dict[str, str]]:
    """Make a key of the default tenant that may do all; return its prefix, and the header that brings it."""
    async with session_of(dsn, "owner") as owner:
        made = await use_cases.make(owner, WantedKey("default", name, ("read", "write", "operate")))
    return made.key.prefix, {"Authorization": f"Bearer {made.text}"}


async def test_each_signal_says_whose_key_sent_it_and_one_in_sql_says_none(dsn: str, locked: Api) -> None:
    (ann, anns), (bob, bobs) = [await key_of(dsn, name) for name in ("ann", "bob")]
    await locked.ask_raw("POST", "/v1/processes", MODEL, {"Content-Type": "application/xml", **anns})
    key = (await locked.post("/v1/processes/p/start", {}, **anns)).json["instance_key"]

    for path, body, sender in (
        ("variables", {"variables": {"a": 1}}, bobs), ("move", {"terminated": []}, anns), ("cancel", {}, bobs),
        ("variables", {}, anns),
    ):  # fmt: skip
        assert (await locked.post(f"/v1/instances/{key}/{path}", body, **sender)).status == 202, path
    await query(dsn, "select shardclock.cancel_instance($1)", key)

    sent = await query(dsn, "select payload from shardclock.deliveries order by timer_key")
    told = [json.loads(row["payload"]) for row in sent]
    assert [(one["kind"], one.get("key_prefix")) for one in told] == [
        ("begin", ann), ("variables", bob), ("moved", ann), ("cancel", bob), ("variables", ann), ("cancel", None),
    ]  # fmt: skip
    assert {one.get("by") for one in told[1:-1]} == {"test_gateway"}


async def test_who_claims_and_who_completes_a_task_is_told(dsn: str, locked: Api) -> None:
    (ann, anns), (bob, bobs) = [await key_of(dsn, name) for name in ("ann", "bob")]
    await query(dsn, TASK)

    assert (await locked.post("/v1/tasks/7/claim", {"assignee": "eve"}, **anns)).status == 200
    assert (await locked.post("/v1/tasks/7/complete", {}, **bobs)).status == 200

    acts = await query(dsn, "select act, detail from shardclock.task_acts order by act_id")
    assert [(row["act"], json.loads(row["detail"])) for row in acts] == [
        ("ASSIGNED", {"assignee": "eve", "key_prefix": ann}),
        ("COMPLETED", {"assignee": "eve", "key_prefix": bob}),
    ]
    (sent,) = await query(dsn, "select payload from shardclock.deliveries")
    assert json.loads(sent["payload"])["key_prefix"] == bob


async def test_a_gateways_session_tells_it_only_where_it_is_another(dsn: str) -> None:
    told = "select current_setting('shardclock.key_prefix', true) as said"
    async with Session(dsn, application="test") as session:

        async def said() -> str | None:
            async with session.connection() as connection:
                found: str | None = await connection.fetchval(told)
                return found

        assert not await said()
        session.serve(frozenset({"acme"}), "ann")
        assert await said() == "ann"
        session.serve(frozenset({"acme"}))
        assert await said() == "", "whoever has the session next is not ann"
