"""Test bulk changes of counted timers, and bodies of many lines with one outcome for each line."""

from __future__ import annotations

from datetime import datetime
from unittest import mock
from unittest.mock import ANY

import pytest

from shardclock_server.gateway.answers.answer import moment_text
from shardclock_server.gateway.routes.lines import LineAnswer
from shardclock_server.sql.clients.scheduling import ScheduleBatch
from shardclock_server.sql.session import StoreUnavailable
from tests.support.factories import add_schedule, pending_rows, query, value
from tests.support.gateways import Api

HOUR = {"delay": "PT1H"}


async def sent(api: Api, *lines: object) -> list[dict[str, object]]:
    done = await api.post_lines(*lines)
    assert done.status == 200, done
    return done.lines


def changed_of(matched: int, changed: int, **reasons: int) -> dict[str, object]:
    """Return the response to a bulk change; `reasons` are the numbers of unchanged timers."""
    unchanged = {"unchanged": sum(reasons.values()), "unchanged_reasons": reasons}
    return {"matched": matched, "changed": changed, **unchanged, "unsure": 0, "left_out": 0, "operation_id": ANY}


async def test_each_line_has_its_outcome_and_only_the_faulty_line_fails(dsn: str, api: Api) -> None:
    outcomes = await sent(
        api,
        {**HOUR, "name": "a"},
        b"",
        b"{nonsense",
        {"delay": "soon"},
        {**HOUR, "name": "a"},
        {**HOUR, "tenant_id": "x"},
    )

    assert [(it["line"], it["outcome"]) for it in outcomes] == [
        (1, "created"), (3, "refused"), (4, "refused"), (5, "refused"), (6, "refused"),
    ]  # fmt: skip
    for it, word in zip(outcomes[1:], ("JSON", "soon", "taken", "tenant_id"), strict=True):
        assert word in str(it["why"])
    assert [LineAnswer.model_validate(it).model_dump(exclude_none=True) for it in outcomes] == outcomes
    (row,) = await pending_rows(dsn)
    assert row["timer_key"] == outcomes[0]["timer_key"]
    assert moment_text(row["due_date"]) == outcomes[0]["due_date"]


@pytest.mark.parametrize(("count", "sessions_lent"), [(500, 1), (1_600, 2)], ids=["one part", "several parts"])
async def test_parts_of_lines_are_written_on_two_connections_and_answered_in_order(
    dsn: str, api: Api, count: int, sessions_lent: int
) -> None:
    before = api.gateway.pool.lendings
    outcomes = await sent(api, *[HOUR] * count)

    assert api.gateway.pool.lendings == before + sessions_lent
    assert api.gateway.pool.lent == 0
    assert [it["line"] for it in outcomes] == [*range(1, count + 1)]
    assert {it["outcome"] for it in outcomes} == {"created"}
    assert {it["timer_key"] for it in outcomes} == {row["timer_key"] for row in await pending_rows(dsn)}


async def test_a_body_with_too_many_lines_is_refused(dsn: str, api: Api) -> None:
    done = await api.post_lines(*[HOUR] * 10_001)

    done.assert_problem("too_large", 413, "10,001 lines", "10,000")
    assert await pending_rows(dsn) == []


@pytest.mark.parametrize(
    ("named", "outcomes"),
    [
        (True, ["created"] * 500 + ["unknown"] * 500 + ["untried"] * 1_500),
        (False, ["created"] * 500 + ["unknown"] * 500 + ["created"] * 500 + ["untried"] * 1_000),
    ],
    ids=["one after the other", "two at a time"],
)
async def test_after_a_lost_answer_lines_are_unknown_or_untried(
    dsn: str, api: Api, named: bool, outcomes: list[str]
) -> None:
    send = ScheduleBatch.send
    batches: list[int] = []

    async def fail_second(self: ScheduleBatch, *given: object) -> object:
        if id(self) not in batches:
            batches.append(id(self))
        if batches.index(id(self)) == 1:
            raise StoreUnavailable("gone")
        return await send(self, *given)  # type: ignore[arg-type] # as it was called

    with mock.patch.object(ScheduleBatch, "send", fail_second):
        found = await sent(api, *(HOUR | ({"name": f"n{n}"} if named else {}) for n in range(2_500)))

    assert [it["outcome"] for it in found] == outcomes
    assert await value(dsn, "select count(*) from shardclock.timers") == outcomes.count("created")


async def test_a_bulk_change_is_counted_first_and_then_done_once(dsn: str, api: Api) -> None:
    await sent(api, *({**HOUR, "name": f"order-{n}"} for n in range(30)), {**HOUR, "name": "other"})
    asked = {"filter": {"name_prefix": "order-"}, "reason": "strike"}

    counted = (await api.post("/v1/timers/bulk/cancel?dry_run=true", asked)).json
    assert counted["matched"] == 30
    assert await value(dsn, "select count(*) from shardclock.timers") == 31
    done = await api.post(f"/v1/timers/bulk/cancel?token={counted['token']}", asked)
    assert done.json == changed_of(30, 30)
    assert [row["name"] for row in await pending_rows(dsn)] == ["other"]


async def test_a_bulk_change_without_the_right_token_changes_nothing(dsn: str, api: Api) -> None:
    await sent(api, *({**HOUR, "name": f"order-{n}"} for n in range(3)))
    asked = {"filter": {"name_prefix": "order-"}}
    token = (await api.post("/v1/timers/bulk/cancel?dry_run=true", asked)).json["token"]

    (await api.post("/v1/timers/bulk/cancel", asked)).assert_problem("refused", 422, "token is missing", "dry_run")
    for path, body in (
        (f"cancel?token={token}", {}),
        (f"pause?token={token}", asked),
        (f"cancel?token=9{token}", asked),
        ("cancel?token=x", asked),
        (f"cancel?token={'9' * 5_000}-1-x", asked),
    ):
        done = await api.post(f"/v1/timers/bulk/{path}", body)
        done.assert_problem("refused", 422, "token", "belongs to another request")
    mallory = await api.post(f"/v1/timers/bulk/cancel?token={token}", asked, Shardclock_Tenant="eve")
    mallory.assert_problem("refused", 422, "belongs to another request")
    assert len(await pending_rows(dsn)) == 3


async def test_a_bulk_change_of_more_timers_than_were_counted_changes_no_timer(dsn: str, api: Api) -> None:
    await sent(api, HOUR, HOUR)
    token = (await api.post("/v1/timers/bulk/pause?dry_run=true")).json["token"]
    await sent(api, HOUR)

    (await api.post(f"/v1/timers/bulk/pause?token={token}")).assert_problem("more_match", 409, "more than 2 timers")
    assert len(await pending_rows(dsn)) == 3


async def test_a_repeated_bulk_shift_with_the_same_token_moves_each_timer_once(dsn: str, api: Api) -> None:
    await sent(api, *({"due_date": "2030-01-31T08:00:00Z", "name": f"n{n}"} for n in range(5)))
    token = (await api.post("/v1/timers/bulk/shift?dry_run=true", {"shift": "PT1H"})).json["token"]

    for expected in (changed_of(5, 5), changed_of(5, 0, nothing_to_change=5)):
        done = await api.post(f"/v1/timers/bulk/shift?token={token}", {"shift": "PT1H"})
        assert done.json == expected
    assert {row["due_date"].isoformat() for row in await pending_rows(dsn)} == {"2030-01-31T09:00:00+00:00"}


async def test_a_parameter_of_another_verb_is_refused(api: Api) -> None:
    cases: list[tuple[str, dict[str, object], str]] = [
        ("cancel", {"shift": "PT1H"}, "shift 'PT1H'"),
        ("resume", {"reason": "x"}, "reason 'x'"),
        ("cancel", {"missed": "skip"}, "missed 'skip' is for pause and resume"),
        ("resume", {"until": "PT2H"}, "until 'PT2H' is for pause"),
        ("pause", {"missed": "skip"}, "missed 'skip' goes with until"),
        ("pause", {"until": "soon"}, "until 'soon' is not an ISO 8601"),
        ("pause", {"until": "2020-01-01T00:00Z"}, "until '2020-01-01 00:00:00+00' is not after now"),
        ("resume", {"missed": "never"}, "missed 'never'"),
        ("shift", {}, "shift is missing"),
        ("shift", {"shift": "later"}, "shift 'later'"),
        ("cancel", {"filter": {"colour": "red"}}, "filter.colour"),
        ("cancel", {"filter": {"due_from": "soon"}}, "due_from 'soon'"),
    ]
    for verb, body, words in cases:
        (await api.post(f"/v1/timers/bulk/{verb}?dry_run=true", body)).assert_problem("refused", 422, words)


async def test_two_equal_bulk_shifts_in_the_same_moment_both_move_the_timers(dsn: str, api: Api) -> None:
    await sent(api, {"due_date": "2030-01-31T08:00:00Z"})
    with mock.patch("shardclock_server.gateway.routes.bulk.time.time", return_value=2e9):
        for _ in range(2):
            token = (await api.post("/v1/timers/bulk/shift?dry_run=true", {"shift": "PT1H"})).json["token"]
            done = await api.post(f"/v1/timers/bulk/shift?token={token}", {"shift": "PT1H"})
            assert done.json["changed"] == 1

    (row,) = await pending_rows(dsn)
    assert row["due_date"].isoformat() == "2030-01-31T10:00:00+00:00"


async def test_a_header_that_the_route_does_not_support_is_refused(api: Api) -> None:
    reference = (await api.get("/openapi.json")).json["paths"]
    of_processes = "processes", "instances", "messages", "signals", "tasks", "service-tasks", "incidents"
    for name, heeding in (("Idempotency-Key", ["timers", *of_processes]), ("If-Match", ["timers"])):
        for path in ("timers/bulk/cancel?dry_run=true", "jobs/x/run", "endpoints/x/rotate", "dead-letters/redrive"):
            (await api.post(f"/v1/{path}", **{name: "k"})).assert_problem("refused", 422, name)
        declared = {
            path
            for path, methods in reference.items()
            for described in methods.values()
            if name in [it["name"] for it in described.get("parameters", [])]
        }
        assert declared
        heeded = tuple(f"/v1/{resource}" for resource in heeding)
        assert not [path for path in declared if "bulk" in path or not path.startswith(heeded)]


async def test_a_resume_of_many_timers_accepts_a_choice_for_missed_occurrences_after_the_count(
    dsn: str, api: Api
) -> None:
    await add_schedule(dsn)
    token = (await api.post("/v1/timers/bulk/pause?dry_run=true")).json["token"]
    await api.post(f"/v1/timers/bulk/pause?token={token}")
    token = (await api.post("/v1/timers/bulk/resume?dry_run=true")).json["token"]

    done = await api.post(f"/v1/timers/bulk/resume?token={token}", {"missed": "skip"})

    assert done.json["changed"] == 1
    (row,) = await pending_rows(dsn)
    assert (row["paused_due_date"], row["missed"], row["missed_once"]) == (None, None, "skip")
    (act,) = await query(dsn, "select parameters ->> 'missed' as missed from shardclock.audit where verb = 'resume'")
    assert act["missed"] == "skip"


async def test_a_pause_of_many_has_one_end_for_all_timers(dsn: str, api: Api) -> None:
    await sent(api, *[HOUR] * 3)
    asked = {"until": "PT2H", "missed": "fire_once", "reason": "strike"}
    token = (await api.post("/v1/timers/bulk/pause?dry_run=true", asked)).json["token"]

    done = await api.post(f"/v1/timers/bulk/pause?token={token}", asked)

    assert done.json["changed"] == 3
    rows = await pending_rows(dsn)
    assert len({row["resume_at"] for row in rows}) == 1
    assert {row["resume_missed"] for row in rows} == {"fire_once"}
    (operation,) = (await api.get("/v1/operations")).json["operations"]
    assert operation["parameters"]["missed"] == "fire_once"
    assert datetime.fromisoformat(operation["parameters"]["until"]) == rows[0]["resume_at"]
    (act,) = await query(dsn, "select parameters ->> 'until' as until from shardclock.audit where verb = 'pause'")
    assert act["until"] == "PT2H"
