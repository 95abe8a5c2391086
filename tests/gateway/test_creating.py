"""Test that an acknowledged timer is stored exactly once, on each way to create it."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from unittest import mock

import asyncpg

from shardclock_server.sql.clients import writing
from shardclock_server.sql.session import Session, StoreUnavailable
from tests.support.factories import BOUND_S, pending_rows, query, value
from tests.support.gateways import Api, serving
from tests.support.waiting import eventually

HOUR = {"delay": "PT1H"}


@asynccontextmanager
async def locked_table(dsn: str) -> AsyncIterator[None]:
    """Lock the timers table against reads during a block."""
    connection = await asyncpg.connect(dsn, timeout=BOUND_S)
    try:
        async with connection.transaction():
            await connection.execute("lock table shardclock.timers in access exclusive mode")
            yield
    finally:
        connection.terminate()


async def test_a_created_timer_is_stored_and_the_answer_has_its_location(dsn: str, api: Api) -> None:
    done = await api.post("/v1/timers", {"due_date": "2030-01-31T08:00:00Z", "name": "o", "payload": {"order": 7}})

    assert (done.status, done.json["outcome"], done.json["due_date"]) == (201, "created", "2030-01-31T08:00:00Z")
    assert done.headers["Location"] == f"/v1/timers/{done.json['timer_key']}"
    (row,) = await pending_rows(dsn)
    assert (row["timer_key"], row["name"], row["tenant_id"]) == (done.json["timer_key"], "o", "default")
    assert json.loads(row["payload"]) == {"order": 7}


async def test_an_invalid_timer_is_refused_in_the_words_of_the_command_line(dsn: str, api: Api) -> None:
    cases: list[tuple[dict[str, object], list[str]]] = [
        ({}, ["exactly one of due_date, delay and schedule"]),
        ({"delay": "15m"}, ["delay '15m'", "PT15M"]),
        ({"due_date": "2030-01-31T08:00"}, ["due_date", "offset"]),
        ({**HOUR, "colour": 1}, ["'colour' is not a field"]),
        ({**HOUR, "tenant_id": "bob"}, ["tenant_id 'bob' is not 'default'", "Shardclock-Tenant"]),
        ({**HOUR, "tenant_id": None}, ["tenant_id null is not 'default'"]),
        ({**HOUR, "target": "nobody"}, ["nobody"]),
    ]
    for fields, words in cases:
        (await api.post("/v1/timers", fields)).assert_problem("refused", 422, *words)
    for key in ("", "x" * 256, "caf\u00e9"):
        (await api.post("/v1/timers", HOUR, Idempotency_Key=key)).assert_problem("refused", 422, "Idempotency-Key")
    assert await pending_rows(dsn) == []


async def test_an_unreadable_body_is_refused_with_the_reason(dsn: str, api: Api) -> None:
    for body, kind, status, words in (
        (b"", "unreadable", 400, "not JSON"),
        (b'{"delay":NaN}', "unreadable", 400, "NaN"),
        (b'{"delay":"PT1H","delay":"PT2H"}', "unreadable", 400, "twice"),
        (b'{"delay":"\xff"}', "unreadable", 400, "UTF-8"),
        (b"[" * 3_000 + b"]" * 3_000, "unreadable", 400, "deep"),
        (b"[]", "refused", 422, "not a JSON object"),
        (b'{"payload":"' + b"x" * 140_000 + b'"}', "too_large", 413, "131,072 bytes"),
    ):
        (await api.post("/v1/timers", body)).assert_problem(kind, status, words)
    for form in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data"):
        done = await api.post("/v1/timers", HOUR, Content_Type=form)
        done.assert_problem("wrong_media_type", 415, form, "application/json")
    assert await pending_rows(dsn) == []


async def test_a_body_that_does_not_arrive_is_answered_408(dsn: str) -> None:
    async with serving(dsn, gateway_body_s=0.2) as api:
        host, port = api.url.removeprefix("http://").split(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(b"POST /v1/timers HTTP/1.1\r\nHost: localhost\r\nContent-Length: 16\r\n\r\n{")
        head = await reader.readline()
        writer.close()

    assert b" 408 " in head
    assert await pending_rows(dsn) == []


async def test_a_taken_name_is_a_conflict_unless_on_conflict_is_given(dsn: str, api: Api) -> None:
    first = (await api.post("/v1/timers", {**HOUR, "name": "n"})).json

    (await api.post("/v1/timers", {**HOUR, "name": "n"})).assert_problem("name_taken", 409, "'n' is taken")
    ignored = await api.post("/v1/timers", {**HOUR, "name": "n", "on_conflict": "ignore"})
    assert (ignored.status, ignored.json) == (200, {**first, "outcome": "unchanged"})
    assert (await api.post("/v1/timers", {**HOUR, "name": "n", "on_conflict": "replace"})).status == 200


async def test_the_first_put_creates_the_timer_of_a_name_and_the_next_put_replaces_the_timer(
    dsn: str, api: Api
) -> None:
    made = await api.put("/v1/timers/by-name/order%2F7", HOUR)
    again = await api.put("/v1/timers/by-name/order%2F7", {"due_date": "2031-01-01T00:00:00Z"})

    assert (made.status, made.json["outcome"], again.status, again.json["outcome"]) == (201, "created", 200, "replaced")
    (row,) = await pending_rows(dsn)
    assert (row["name"], row["due_date"].year) == ("order/7", 2031)
    wrong = await api.put("/v1/timers/by-name/n", {**HOUR, "name": "m"})
    wrong.assert_problem("refused", 422, "name is not a field here")


async def test_a_repeated_request_with_the_same_key_is_executed_once_and_gets_the_same_answer(
    dsn: str, api: Api
) -> None:
    first = await api.post("/v1/timers", HOUR, Idempotency_Key="k1")
    again = await api.post("/v1/timers", HOUR, Idempotency_Key="k1")

    assert (first.status, again.status, again.json) == (201, 201, first.json)
    assert "Idempotency-Replayed" not in first.headers
    assert again.headers["Idempotency-Replayed"] == "true"
    assert await value(dsn, "select count(*) from shardclock.timers") == 1
    other = await api.post("/v1/timers", {"delay": "PT2H"}, Idempotency_Key="k1")
    other.assert_problem("other_request", 422, "'k1'")


async def test_after_a_lost_answer_the_batch_is_sent_again_with_the_same_keys(dsn: str, api: Api) -> None:
    write = writing.write_whole
    lost: list[int] = []

    async def lose_one(*args: object) -> object:
        outcomes = await write(*args)  # type: ignore[arg-type] # as it was called
        if not lost:
            lost.append(1)
            raise StoreUnavailable("the connection was lost after the commit")
        return outcomes

    with mock.patch.object(writing, "write_whole", lose_one):
        plain = await api.post("/v1/timers", HOUR)
        lost.clear()
        keyed = await api.post("/v1/timers", HOUR, Idempotency_Key="k")

    assert (plain.status, keyed.status) == (201, 201)
    keys = {row["timer_key"] for row in await pending_rows(dsn)}
    assert keys == {plain.json["timer_key"], keyed.json["timer_key"]}


async def test_many_concurrent_creates_become_few_statements(dsn: str, api: Api) -> None:
    counted = Counter[str]()
    rows = Session.rows

    async def count(self: Session, name: str, /, **values: object) -> object:
        counted[name] += 1
        return await rows(self, name, **values)

    with mock.patch.object(Session, "rows", count):
        done = await asyncio.gather(*(api.post("/v1/timers", {**HOUR, "name": f"n{n}"}) for n in range(100)))

    assert {it.status for it in done} == {201}
    assert await value(dsn, "select count(*) from shardclock.timers") == 100
    assert counted["draw_keys"] <= 40


async def test_only_the_faulty_timer_of_a_batch_is_refused(dsn: str, api: Api) -> None:
    bodies = [{**HOUR, "target": "nobody"} if n == 7 else HOUR for n in range(20)]
    done = await asyncio.gather(*(api.post("/v1/timers", body) for body in bodies))

    assert [it.status for it in done] == [422 if n == 7 else 201 for n in range(20)]
    assert await value(dsn, "select count(*) from shardclock.timers") == 19


async def test_without_postgres_requests_are_answered_503_within_the_timeout_and_served_when_it_is_back(
    dsn: str, api: Api
) -> None:
    async with serving("postgresql://nobody@127.0.0.1:1/none", role="", gateway_timeout_s=1.0) as lonely:
        done = await lonely.post("/v1/timers", HOUR)
        done.assert_problem("unavailable", 503, "Postgres does not answer: ", "send the request again")
        assert done.headers["Retry-After"] == "1"
        assert (await lonely.get("/healthz")).status == 200
        (await lonely.get("/readyz")).assert_problem("unavailable", 503)
    assert (await api.get("/readyz")).json == {"status": "ok"}


async def test_without_a_free_session_requests_are_answered_503(dsn: str) -> None:
    async with serving(dsn, gateway_sessions=2, gateway_wait_s=0.2) as api:
        await api.post("/v1/timers", {**HOUR, "name": "n"})
        async with locked_table(dsn):
            tasks = [asyncio.create_task(api.get("/v1/timers/by-name/n")) for _ in range(2)]
            await eventually(lambda: api.gateway.pool.lent == 2)
            (await api.get("/v1/timers/by-name/n")).assert_problem("unavailable", 503, "in use")
            # if it reported a fault, a load balancer would overload the other gateways
            assert (await api.get("/readyz")).status == 200
        assert [(await task).status for task in tasks] == [200, 200]


async def test_each_acknowledged_timer_is_stored_once_when_clients_disconnect_in_mid_request(
    dsn: str, api: Api
) -> None:
    tasks = [asyncio.create_task(api.post("/v1/timers", {**HOUR, "name": f"n{n}"})) for n in range(60)]
    for number, task in enumerate(tasks):
        if number % 3 == 0:
            await asyncio.sleep(0.002)
            task.cancel()
    done = await asyncio.gather(*tasks, return_exceptions=True)
    for number in range(60):
        await api.post("/v1/timers", {**HOUR, "name": f"n{number}", "on_conflict": "ignore"})

    names = [row["name"] for row in await query(dsn, "select name from shardclock.timers")]
    assert sorted(names) == sorted(f"n{n}" for n in range(60))
    assert sum(not isinstance(it, BaseException) and it.status == 201 for it in done) >= 40


async def test_a_starting_gateway_deletes_the_idempotent_answers_of_the_day_before_yesterday(dsn: str) -> None:
    slot = "(((now() at time zone 'UTC')::date - date '1970-01-01') + 1) % 3"
    await query(
        dsn,
        "insert into shardclock.idempotent_requests"
        " (created_at, slot, status, tenant_id, idempotency_key, fingerprint, body)"
        f" values (now() - interval '2 days', {slot}, 201, 'default', 'old', sha256('x'), '{{}}')",
    )

    async def is_empty() -> bool:
        return bool(await value(dsn, "select count(*) = 0 from shardclock.idempotent_requests"))

    async with serving(dsn):
        await eventually(is_empty)


async def test_a_gateway_without_the_right_to_schedule_names_the_missing_grant(dsn: str) -> None:
    async with serving(dsn, role="shard") as api:
        (await api.post("/v1/timers", HOUR)).assert_problem("broken", 500, "shardclock_gateway")


async def test_the_body_may_name_the_requests_own_tenant(api: Api) -> None:
    body = {"delay": "PT1H", "tenant_id": "acme"}
    acme, bob = {"Shardclock_Tenant": "acme"}, {"Shardclock_Tenant": "bob"}

    made = await api.post("/v1/timers", body, **acme)
    put = await api.put("/v1/timers/by-name/n", body, **acme)
    many = await api.post_lines(body, **acme)
    other = await api.post_lines(body, **bob)

    assert (made.status, put.status, many.lines[0]["outcome"]) == (201, 201, "created")
    assert other.lines[0]["outcome"] == "refused"
    for refused in (await api.post("/v1/timers", body, **bob), await api.put("/v1/timers/by-name/n", body, **bob)):
        refused.assert_problem("refused", 422, "tenant_id 'acme' is not 'bob'", "Shardclock-Tenant")
