"""Test the responses about timers, and that a change is answered with its true outcome."""

from __future__ import annotations

import asyncio
from typing import Any
from unittest import mock
from urllib.parse import quote

import pytest

from shardclock_server.gateway.routes import changing
from tests.support.factories import HolderClient, add_holder, add_schedule, pending_rows, value
from tests.support.gateways import Api

HOUR = {"delay": "PT1H"}
FAR = {"due_date": "2030-01-31T08:00:00Z"}


async def made(api: Api, **fields: object) -> int:
    """Schedule a timer, and return its key."""
    when = {} if fields.keys() & {"due_date", "delay", "schedule"} else FAR
    done = await api.post("/v1/timers", {**when, **fields})
    assert done.status == 201, done
    return int(done.json["timer_key"])


async def test_a_timer_is_found_by_its_key_and_by_its_name(api: Api) -> None:
    key = await made(api, name="a/b c", payload={"x": [1, None]}, schedule="R/P1D", zone="Europe/Berlin")

    found = await api.get(f"/v1/timers/{key}")
    assert found.json == (await api.get("/v1/timers/by-name/a%2Fb%20c")).json
    shown = {name: found.json[name] for name in ("timer_key", "state", "schedule", "zone", "missed", "payload")}
    assert shown == {
        "timer_key": key, "state": "PENDING", "schedule": "R/P1D", "zone": "Europe/Berlin", "missed": "fire_once",
        "payload": {"x": [1, None]},
    }  # fmt: skip
    assert found.headers["ETag"] == (await api.get(f"/v1/timers/{key}")).headers["ETag"]


async def test_names_with_slashes_are_not_confused_with_subpaths(api: Api) -> None:
    keys = {name: await made(api, name=name) for name in ("a", "a/records", "a/cancel", "100%", "a%2Fb", "ü/\u65e5")}

    for name, key in keys.items():
        path = f"/v1/timers/by-name/{quote(name, safe='')}"
        assert (await api.get(path)).json["timer_key"] == key
        assert (await api.get(f"{path}/records")).json["records"] == []
    assert (await api.post("/v1/timers/by-name/a%2Fcancel/cancel")).json["name"] == "a/cancel"
    assert (await api.get("/v1/timers/by-name/a")).json["state"] == "PENDING"


async def test_an_unknown_path_is_answered_with_the_address_of_the_reference(api: Api) -> None:
    for path in ("/", "/v1", "/v1/timers/", "/v1/timers/abc", "/v1/timers/-1", "/v2/timers"):
        (await api.get(path)).assert_problem("not_found", 404, path, "/openapi.json")
    for path in ("/v1/timers/7", "/v1/timers/by-name/nobody", "/v1/timers/7/records", f"/v1/timers/{'9' * 5_000}"):
        (await api.get(path)).assert_problem("not_found", 404)
    (await api.get(f"/v1/timers/{2**63}")).assert_problem("refused", 422, "timer_key")
    (await api.ask("DELETE", "/v1/timers/7")).assert_problem("wrong_method", 405, "DELETE")


async def test_timers_are_listed_soonest_first_a_page_at_a_time(api: Api) -> None:
    for day in (3, 1, 2):
        await made(api, due_date=f"2030-01-0{day}T00:00:00Z", name=f"order-{day}")
    await made(api, due_date="2030-01-01T00:00:00Z", name="other")

    first = (await api.get("/v1/timers?name_prefix=order-&limit=2")).json
    second = (await api.get(f"/v1/timers?name_prefix=order-&limit=2&after={first['next']}")).json
    assert [timer["name"] for timer in first["timers"] + second["timers"]] == ["order-1", "order-2", "order-3"]
    assert second["next"] is None
    window = "due_from=2030-01-02T00:00:00Z&due_before=2030-01-03T00:00:00Z"
    assert [timer["name"] for timer in (await api.get(f"/v1/timers?{window}")).json["timers"]] == ["order-2"]


async def test_a_next_page_s_address_needs_no_encoding(api: Api) -> None:
    names = ["order a&limit=0", "order b+c", "order d%41#"]
    for name in names:
        await made(api, name=name)

    listed, query = [], "/v1/timers?name_contains=order&limit=1"
    page = (await api.get(query)).json
    while page["next"] is not None:
        listed += [timer["name"] for timer in page["timers"]]
        page = (await api.get(f"{query}&after={page['next']}")).json

    assert listed + [timer["name"] for timer in page["timers"]] == names
    (await api.get("/v1/timers?after=x+y")).assert_problem("refused", 422, "'x y' is not the `next` of a page")


async def test_timers_are_found_by_a_part_of_the_name_a_rule_and_their_last_change(api: Api) -> None:
    first = await made(api, name="Order-1")
    weekly = await made(api, name="weekly-order", schedule="R/P1D")
    await made(api, name="other")
    await api.post("/v1/timers/by-name/Order-1/pause")
    paused_at = (await api.get("/v1/timers/by-name/Order-1")).json["changed_at"]
    far = "changed_from=2100-01-01T00:00:00Z"

    async def names(query: str) -> list[str]:
        return [timer["name"] for timer in (await api.get(f"/v1/timers?{query}")).json["timers"]]

    assert await names("name_contains=ORDER") == ["weekly-order"]
    assert await names("only_schedules=true") == ["weekly-order"]
    assert await names(f"state=paused&order_by=change&changed_from={paused_at}") == ["Order-1"]
    assert await names(f"state=paused&{far}") == []
    for chosen, matched in (
        ({"name_contains": "order"}, 1),
        ({"only_schedules": True}, 0),
        ({"changed_before": paused_at}, 0),
        ({"timer_keys": [first, weekly]}, 1),
        ({"timer_keys": [weekly]}, 0),
        ({"timer_keys": []}, 0),
        ({"timer_keys": None}, 1),
    ):
        counted = await api.post("/v1/timers/bulk/resume?dry_run=true", {"filter": chosen})
        assert counted.json["matched"] == matched, chosen


async def test_an_invalid_list_query_is_refused(api: Api) -> None:
    for query, words in (
        ("name_contains=a&name=b", "only one of name, name_prefix and name_contains"),
        ("order_by=name", "order_by 'name' is refused"),
        ("changed_from=soon", "changed_from 'soon'"),
        ("state=lost", "state 'lost'"),
        ("limit=0", "limit '0'"),
        ("limit=x", "limit 'x'"),
        ("limit=1_0", "limit '1_0' is refused: it must be a whole number"),
        ("limit=%2B5", "limit '+5'"),
        ("limit=+5", "limit ' 5'"),
        ("limit=5.0", "limit '5.0'"),
        ("limit=%D9%A5", "limit '٥'"),
        ("after=x", "page"),
        ("due_from=2030-01-02T00:00:00Z&due_before=2030-01-01T00:00:00Z", "swap them"),
        ("process_instance_key=-1", "process_instance_key '-1'"),
    ):
        (await api.get(f"/v1/timers?{query}")).assert_problem("refused", 422, words)


@pytest.mark.parametrize("by", ["key", "name"])
async def test_each_verb_answers_with_the_timers_state(dsn: str, api: Api, by: str) -> None:
    key = await made(api, name="n")
    path = f"/v1/timers/{key}" if by == "key" else "/v1/timers/by-name/n"

    async def state_after(verb: str, body: object = None) -> str:
        done = await api.post(f"{path}/{verb}", body)
        assert (done.status, done.json["timer_key"]) == (200, key), done
        return str(done.json["state"])

    assert await state_after("pause", {"reason": "strike"}) == "PAUSED"
    (await api.post(f"{path}/run")).assert_problem("too_late", 409, "resume it first")
    assert await state_after("resume") == "PENDING"
    assert await state_after("run") == "RESCHEDULED"
    assert await state_after("run") == "PENDING"
    assert await state_after("cancel", {"reason": "paid"}) == "CANCELED"
    assert await state_after("cancel") == "CANCELED"
    late = await api.post(f"{path}/pause")
    late.assert_problem("too_late", 409, "too late", "CANCELED already")
    assert late.json["state"] == "CANCELED"
    records = (await api.get(f"{path}/records")).json["records"]
    assert [record["intent"] for record in records] == ["CANCELED", "RESCHEDULED", "RESUMED", "PAUSED"]
    assert records[0]["detail"]["reason"] == "paid"
    assert (await api.get(f"{path}/explanation")).json["verdict"] == "CANCELED"


async def test_a_moved_timer_is_answered_with_its_new_due_date(api: Api) -> None:
    key = await made(api, name="n")
    for to, due in (
        ({"shift": "PT1H"}, "2030-01-31T09:00:00Z"),
        ({"due_date": "2031-01-01T00:00:00Z"}, "2031-01-01T00:00:00Z"),
        ({"due_date": "2031-07-01T00:00", "zone": "Europe/Berlin"}, "2031-06-30T22:00:00Z"),
    ):
        done = await api.patch("/v1/timers/by-name/n", to)
        said = {field: done.json[field] for field in ("timer_key", "state", "due_date")}
        assert said == {"timer_key": key, "state": "RESCHEDULED", "due_date": due}
        assert (await api.get(f"/v1/timers/{key}")).json["due_date"] == due


async def test_an_invalid_move_is_refused_and_moves_nothing(api: Api) -> None:
    key = await made(api)
    cases: list[tuple[dict[str, object], str]] = [
        ({}, "exactly one of delay, due_date, shift and schedule"),
        ({"delay": "PT1S", "shift": "PT1S"}, "exactly one of"),
        ({"delay": 5}, "delay 5 is refused"),
        ({"shift": "PT1S", "zone": "UTC"}, "zone goes with"),
        ({"delay": "PT1S", "missed": "skip"}, "missed goes with"),
        ({"colour": "red"}, "'colour' is not a field here"),
    ]
    for to, words in cases:
        (await api.patch(f"/v1/timers/{key}", to)).assert_problem("refused", 422, words)
    assert (await api.get(f"/v1/timers/{key}")).json["due_date"] == FAR["due_date"]


async def test_a_change_of_a_timer_with_an_old_etag_is_stale(api: Api) -> None:
    key = await made(api)
    tag = (await api.get(f"/v1/timers/{key}")).headers["ETag"]
    assert (await api.patch(f"/v1/timers/{key}", {"shift": "PT1H"}, If_Match=tag)).status == 200

    stale = await api.patch(f"/v1/timers/{key}", {"shift": "PT1H"}, If_Match=tag)
    stale.assert_problem("stale", 412, "read it again")
    assert stale.headers["ETag"] == (await api.get(f"/v1/timers/{key}")).headers["ETag"]
    assert (await api.get(f"/v1/timers/{key}")).json["due_date"] == "2030-01-31T09:00:00Z"
    assert (await api.post(f"/v1/timers/{key}/cancel", If_Match="*")).status == 200


async def test_only_one_of_two_changes_with_the_same_etag_is_made(api: Api) -> None:
    key = await made(api)
    tag = (await api.get(f"/v1/timers/{key}")).headers["ETag"]

    done = await asyncio.gather(*(api.patch(f"/v1/timers/{key}", {"shift": "PT1H"}, If_Match=tag) for _ in range(8)))
    assert sorted(it.status for it in done) == [200] + [412] * 7
    assert (await api.get(f"/v1/timers/{key}")).json["due_date"] == "2030-01-31T09:00:00Z"


async def test_a_shards_claim_does_not_change_the_etag(dsn: str, api: Api) -> None:
    key = await made(api, delay="PT2S")
    tag = (await api.get(f"/v1/timers/{key}")).headers["ETag"]
    await add_holder(dsn, 11)
    async with HolderClient(dsn, 11) as hand:
        assert await value(dsn, "select claimed_by from shardclock.timers") is None
        await hand.take()
        assert await value(dsn, "select claimed_by from shardclock.timers") == 11

    assert (await api.patch(f"/v1/timers/{key}", {"delay": "PT1H"}, If_Match=tag)).status == 200


async def test_a_repeated_shift_with_the_same_key_moves_once(api: Api) -> None:
    key = await made(api)
    first = await api.patch(f"/v1/timers/{key}", {"shift": "PT1H"}, Idempotency_Key="s1")
    again = await api.patch(f"/v1/timers/{key}", {"shift": "PT1H"}, Idempotency_Key="s1")

    assert (first.status, again.status, again.json) == (200, 200, first.json)
    assert again.headers["Idempotency-Replayed"] == "true"
    assert (await api.get(f"/v1/timers/{key}")).json["due_date"] == "2030-01-31T09:00:00Z"
    other = await api.patch(f"/v1/timers/{key}", {"shift": "PT2H"}, Idempotency_Key="s1")
    other.assert_problem("other_request", 422, "'s1'")


async def test_a_change_that_was_refused_leaves_no_answer_behind(dsn: str, api: Api) -> None:
    (await api.post("/v1/timers/by-name/n/pause", Idempotency_Key="p")).assert_problem("not_found", 404)
    await made(api, name="n")

    assert (await api.post("/v1/timers/by-name/n/pause", Idempotency_Key="p")).status == 200


async def test_a_preview_shows_the_dates_of_a_rule(api: Api) -> None:
    rule = "rule=0+2+*+*+*&zone=Europe/Berlin&from=2027-03-27T00:00:00Z&count=2"
    first, second = (await api.get(f"/v1/schedules/preview?{rule}")).json["occurrences"]

    assert (first["due_date"], first["local"][:16]) == ("2027-03-27T01:00:00Z", "2027-03-27T02:00")
    assert "clock" in second["note"]
    for wrong, word in (("rule=nonsense", "nonsense"), ("rule=R/P1D&zone=Mars/X", "Mars/X"), ("", "rule is missing")):
        (await api.get(f"/v1/schedules/preview?{wrong}")).assert_problem("refused", 422, word)


async def test_the_header_if_match_is_refused_for_a_replacement(api: Api) -> None:
    await made(api, name="n")
    replaced = await api.put("/v1/timers/by-name/n", HOUR, If_Match='"x"')
    created = await api.post("/v1/timers", HOUR, If_Match="*")
    for done in (replaced, created):
        done.assert_problem("refused", 422, "If-Match", "PATCH")
    assert (await api.get("/v1/timers/by-name/n")).json["due_date"] == FAR["due_date"]


async def test_the_header_if_none_match_is_refused_and_a_post_refuses_a_used_name(api: Api) -> None:
    await made(api, name="n")
    for refused in (
        await api.put("/v1/timers/by-name/n", HOUR, If_None_Match="*"),
        await api.patch("/v1/timers/by-name/n", {"shift": "PT1S"}, If_None_Match="*"),
        await api.post("/v1/timers/by-name/n/pause", {}, If_None_Match='"x"'),
        await api.post("/v1/timers/bulk/cancel", {"name_prefix": "n"}, If_None_Match="*"),
    ):
        refused.assert_problem("refused", 422, "If-None-Match", "POST /v1/timers")
    (await api.post("/v1/timers", {**HOUR, "name": "n"})).assert_problem("name_taken", 409)
    assert (await api.get("/v1/timers/by-name/n")).json["due_date"] == FAR["due_date"]


async def test_an_etag_of_an_ended_timer_changes_no_new_timer_of_its_name(api: Api) -> None:
    await made(api, name="n")
    await api.post("/v1/timers/by-name/n/cancel")
    tag = (await api.get("/v1/timers/by-name/n")).headers["ETag"]
    require = changing._require

    async def replaced_meanwhile(*args: Any) -> None:
        await require(*args)
        await made(api, name="n")

    with mock.patch.object(changing, "_require", replaced_meanwhile):
        late = await api.post("/v1/timers/by-name/n/pause", If_Match=tag)

    late.assert_problem("too_late", 409, "CANCELED already")
    assert (await api.get("/v1/timers/by-name/n")).json["state"] == "PENDING"


async def test_a_resume_takes_a_choice_for_the_missed_occurrences(dsn: str, api: Api) -> None:
    await add_schedule(dsn)
    path = "/v1/timers/by-name/beat"
    await api.post(f"{path}/pause")

    refused = await api.post(f"{path}/resume", {"missed": "never"})
    refused.assert_problem("refused", 422, "missed 'never'", "policy", "skip")
    assert (await api.post(f"{path}/resume", {"missed": "skip"})).json["state"] == "PENDING"

    (row,) = await pending_rows(dsn)
    assert row["missed_once"] == "skip"
    newest = (await api.get(f"{path}/records")).json["records"][0]
    assert (newest["intent"], newest["detail"]["missed"]) == ("RESUMED", "skip")


async def test_a_pause_takes_an_end_and_a_choice(dsn: str, api: Api) -> None:
    await add_schedule(dsn)
    path = "/v1/timers/by-name/beat"
    asked = {"until": "2040-01-01T13:00[Europe/Berlin]", "missed": "skip", "reason": "strike"}

    assert (await api.post(f"{path}/pause", asked)).json["state"] == "PAUSED"

    assert (await api.get(path)).json["resume_at"] == "2040-01-01T12:00:00Z"
    (row,) = await pending_rows(dsn)
    assert row["resume_missed"] == "skip"
    newest = (await api.get(f"{path}/records")).json["records"][0]
    assert newest["detail"] | {"by": None} == {
        "by": None, "reason": "strike", "missed": "skip", "until": "2040-01-01T12:00:00+00:00",
    }  # fmt: skip
    for until, words in (
        ("PT0S", "is not after now"),
        ("2h", "or write an ISO 8601 duration such as PT2H"),
        ("P", "is not"),
    ):
        refused = await api.post(f"{path}/pause", {"until": until})
        refused.assert_problem("refused", 422, f"until '{until}'", words)
        assert refused.json["type"].endswith("invalid_until")
