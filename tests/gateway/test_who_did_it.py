"""Test that changes of timers, instances and tasks over HTTP record the API key."""

from __future__ import annotations

import json

from shardclock_server.service import keys as use_cases
from shardclock_server.service.operator_hold import find_author_of_hold
from shardclock_server.sql.clients.history import PastHold
from shardclock_server.sql.keys.keys import WantedKey
from shardclock_server.sql.session import Session
from tests.support.bpmn import model
from tests.support.factories import add_timers, query
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


async def key_of(dsn: str, name: str, *, tenant: str | None = "default") -> tuple[str, dict[str, str]]:
    """Make a key of a tenant, or an operator's key, with all rights; return its prefix, and its header."""
    async with session_of(dsn, "owner") as owner:
        made = await use_cases.make(owner, WantedKey(tenant, name, ("read", "write", "operate")))
    return made.key.prefix, {"Authorization": f"Bearer {made.text}"}


async def test_each_signal_records_its_senders_key_and_a_signal_from_sql_records_no_key(dsn: str, locked: Api) -> None:
    (ann, anns), (bob, bobs) = [await key_of(dsn, name) for name in ("ann", "bob")]
    await locked.deploy(MODEL, **anns)
    key = (await locked.post("/v1/processes/p/start", {}, **anns)).json["instance_key"]

    for path, body, sender in (
        ("variables", {"variables": {"a": 1}}, bobs), ("move", {"begun": ["u"]}, anns), ("cancel", {}, bobs),
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


async def test_a_tasks_history_records_the_keys_of_its_claim_and_completion(dsn: str, locked: Api) -> None:
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


async def test_each_change_of_a_timer_records_the_callers_key_and_a_change_in_sql_records_no_key(
    dsn: str, locked: Api
) -> None:
    (ann, anns), (bob, bobs) = [await key_of(dsn, name) for name in ("ann", "bob")]
    keys = [(await locked.post("/v1/timers", {"delay": "PT1H"}, **anns)).json["timer_key"] for _ in range(2)]
    path = f"/v1/timers/{keys[0]}"

    assert (await locked.post(f"{path}/pause", {"reason": "strike"}, **anns)).status == 200
    assert (await locked.post(f"{path}/resume", Idempotency_Key="k", **bobs)).status == 200
    assert (await locked.patch(path, {"shift": "PT1H"}, If_Match="*", **anns)).status == 200
    assert (await locked.post(f"{path}/cancel", **bobs)).status == 200
    counted = await locked.post("/v1/timers/bulk/pause?dry_run=true", {}, **bobs)
    assert (await locked.post(f"/v1/timers/bulk/pause?token={counted.json['token']}", {}, **bobs)).status == 200
    await query(dsn, "select shardclock.cancel_timer($1)", keys[1])

    told = await query(dsn, "select intent, detail ->> 'key_prefix' from shardclock.command_log order by position")
    assert [tuple(row) for row in told] == [
        ("PAUSED", ann), ("RESUMED", bob), ("RESCHEDULED", ann), ("CANCELED", bob), ("PAUSED", bob), ("CANCELED", None),
    ]  # fmt: skip
    assert f"by the API key bob ({bob})" in (await locked.get(f"{path}/explanation", **anns)).json["why"]
    acts = await query(dsn, "select parameters from shardclock.audit where verb = 'pause'")
    assert [json.loads(row["parameters"]).get("changed") for row in acts] == [1]


async def test_an_explanation_names_the_author_of_a_hold_and_of_a_pause_only_to_callers_who_may_know_them(
    dsn: str, locked: Api
) -> None:
    (_, anns), (dana, danas) = await key_of(dsn, "ann"), await key_of(dsn, "dana", tenant=None)
    (_, eves) = await key_of(dsn, "eve", tenant=None)
    (held, paused) = await add_timers(dsn, 2, "now() - interval '1 hour'")
    assert (await locked.post(f"/v1/timers/{paused}/pause", **danas)).status == 200
    for header, reason in ((danas, "billing is down"), (eves, "it is still down")):
        assert (await locked.post("/v1/cluster/hold", {"reason": reason}, **header)).status == 200

    async def told(key: int, header: dict[str, str]) -> str:
        return str((await locked.get(f"/v1/timers/{key}/explanation", **header)).json["why"])

    assert "on hold, an operator said: it is still down, by eve; " in await told(held, danas)
    assert f"by the API key dana ({dana})" in await told(paused, danas)
    assert "eve" not in await told(held, anns)
    assert f"by the API key {dana};" in await told(paused, anns)
    (first,) = await query(dsn, "select h.* from shardclock.identity, jsonb_to_recordset(holds)"
        " h (why text, began_at timestamptz, ended_at timestamptz) where h.ended_at is not null")  # fmt: skip
    async with session_of(dsn, "owner") as owner:
        assert await find_author_of_hold(owner, PastHold(*first)) == "dana"


async def test_a_pooled_session_never_keeps_the_key_of_an_earlier_request(dsn: str) -> None:
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
        assert await said() == "", "the next user of the session is not ann"
