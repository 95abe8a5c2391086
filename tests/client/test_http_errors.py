"""Test that each type of problem has an error class, and that responses of other servers are reported as such."""

from __future__ import annotations

import json
import pickle
from collections.abc import Awaitable, Callable
from typing import Any
from unittest import mock

import pytest

from shardclock import ApiError, AsyncClient
from shardclock import http as api_client
from shardclock.api.codes import GENERAL, IN_FLIGHT, PREFIX
from shardclock.api.errors import BY_NAME, UNKNOWN
from shardclock.api.refusals import code_of
from shardclock_server.gateway.combining import Combiner
from shardclock_server.service import keys as use_cases
from shardclock_server.sql.clients.outcomes import Untried
from shardclock_server.sql.keys.keys import WantedKey
from tests.support.factories import pending_rows
from tests.support.gateways import Api, serving
from tests.support.lossy import answering, raw
from tests.support.sql_client import session as session_of

Ask = Callable[[AsyncClient], Awaitable[object]]
# Problems that a program can't handle have no separate class.
WITHOUT_CLASS = {"unreadable", "wrong_method", "too_slow", "wrong_media_type"}
HOSTILE = ["", "[]", "{", "null", '{"type": 7, "detail": "x"}', '{"type": "x"}', "<html>", "[" * 100_000]


async def taken(client: AsyncClient) -> None:
    await client.schedule(delay="PT1H", name="n")


async def late(client: AsyncClient) -> None:
    await client.cancel(name="n")
    await client.pause(name="n")


async def stale(client: AsyncClient) -> None:
    etag = (await client.get(name="n")).etag
    await client.move(name="n", shift="PT1H")
    await client.move(name="n", shift="PT1H", if_match=etag)


async def other_request(client: AsyncClient) -> None:
    await client.schedule(delay="PT1H", idempotency_key="k")
    await client.schedule(delay="PT2H", idempotency_key="k")


async def more_match(client: AsyncClient) -> None:
    counted = await client.bulk("pause")
    await client.schedule(delay="PT1H")
    await counted.commit()


PROVOKED: dict[str, tuple[int, Ask]] = {
    "unknown_timer": (404, lambda client: client.get(name="nobody")),
    "timer_ended": (409, late),
    "name_taken": (409, taken),
    "more_match": (409, more_match),
    "etag_differs": (412, stale),
    "too_large": (413, lambda client: client.schedule(delay="PT1H", payload="x" * 200_000)),
    "invalid_delay": (422, lambda client: client.schedule(delay="soon")),
    "other_request": (422, other_request),
}


async def test_each_problem_type_has_its_error_class(gateway: Api) -> None:
    for name, (status, ask) in PROVOKED.items():
        code = code_of(name)
        assert code is not None
        async with AsyncClient(gateway.url, tenant=name) as client:
            await client.schedule(delay="PT1H", name="n")
            with pytest.raises(BY_NAME[code.general]) as refused:
                await ask(client)
        error = refused.value
        assert (error.code, error.type, error.status) == (name, f"{PREFIX}{name}", status)
        assert str(error) == error.detail
        assert error.detail.isprintable()
        if isinstance(error, api_client.TooLate):
            assert error.state == "CANCELED"
        if isinstance(error, api_client.MoreMatch):
            assert error.matched == 2


async def test_missing_unknown_and_insufficient_keys_have_different_errors(dsn: str) -> None:
    async with session_of(dsn, "owner") as owner:
        key = (await use_cases.make(owner, WantedKey("ada", "reader", ("read",)))).text
    async with serving(dsn, needs_keys=True) as gateway:
        async with AsyncClient(gateway.url) as client:
            with pytest.raises(api_client.NoKey):
                await client.schedule(delay="PT1H")
        async with AsyncClient(gateway.url, key=key) as client:
            assert [timer async for timer in client.list()] == []
            with pytest.raises(api_client.NotAllowed, match="no scope write"):
                await client.schedule(delay="PT1H")
    assert await pending_rows(dsn) == []


async def test_a_failed_gateway_gets_no_retry(gateway: Api, client: AsyncClient) -> None:
    with (
        mock.patch.object(Combiner, "schedule", side_effect=RuntimeError("a bug")) as schedule,
        pytest.raises(api_client.Broken, match="the request may have been executed"),
    ):
        await client.schedule(delay="PT1H")
    assert schedule.call_count == 1


async def test_a_request_that_remains_in_flight_ends_with_the_error_in_flight(gateway: Api) -> None:
    with mock.patch.object(Combiner, "schedule", return_value=Untried.of(IN_FLIGHT, key="k")):
        async with AsyncClient(gateway.url, retry_for="PT1.5S") as client:
            with pytest.raises(api_client.InFlight):
                await client.schedule(delay="PT1H")


def test_each_problem_that_programs_handle_has_a_class() -> None:
    assert {code.name for code in GENERAL} == (BY_NAME.keys() - {"no_answer"}) | WITHOUT_CLASS
    assert all(error.__name__ in api_client.__all__ for error in BY_NAME.values())


@pytest.mark.parametrize(
    ("status", "kind"), [(404, "not_found"), (409, "conflict"), (422, "refused"), (503, "unavailable")]
)
async def test_an_unknown_code_has_the_error_class_of_its_status(status: int, kind: str) -> None:
    body = json.dumps({"type": f"{PREFIX}on_holiday", "title": "", "status": status, "detail": "back on Monday"})
    async with answering(raw(status, body)) as stub, AsyncClient(stub.url, retry_for="PT0S") as client:
        with pytest.raises(BY_NAME[kind], match=r"^back on Monday") as refused:
            await client.get(name="n")

    assert refused.value.code == "on_holiday"


async def test_an_unknown_problem_type_is_an_api_error_with_its_members() -> None:
    body = json.dumps(
        {"type": f"{PREFIX}on_holiday", "title": "", "status": 418, "detail": "back on Monday", "until": 7}
    )
    async with answering(raw(418, body)) as stub, AsyncClient(stub.url) as client:
        with pytest.raises(ApiError, match=r"^back on Monday$") as refused:
            await client.get(name="n")

    error = refused.value
    assert type(error) is ApiError
    assert (error.type, error.status, error.members) == (f"{PREFIX}on_holiday", 418, {"until": 7})
    assert str(pickle.loads(pickle.dumps(error))) == str(error)


@pytest.mark.parametrize("status", [200, 204, 302, 404, 500])
async def test_a_response_of_another_server_is_reported_as_such(status: int) -> None:
    for body in HOSTILE:
        said = raw(status, "" if status == 204 else body)
        async with answering(said) as stub, AsyncClient(stub.url) as client:
            asks: list[Awaitable[Any]] = [
                client.schedule(delay="PT1H"),
                client.get(name="n"),
                anext(client.schedule_many([{"delay": "PT1H"}])),
            ]
            for ask in asks:
                try:
                    found = await ask
                except ApiError as error:
                    assert (error.type, error.status) == (UNKNOWN, 200 if status == 204 else status)  # noqa: PT017
                    assert "not by a gateway; check the client's url, given or in SHARDCLOCK_API_URL" in error.detail  # noqa: PT017
                else:
                    assert found.outcome in ("unknown", "untried")


async def test_unknown_fields_of_a_newer_gateway_are_ignored() -> None:
    scheduled = {"timer_key": 7, "due_date": "2027-01-31T08:00:00Z", "outcome": "created", "shard": {"of": [1]}}
    async with answering(raw(201, json.dumps(scheduled))) as stub, AsyncClient(stub.url) as client:
        made = await client.schedule(delay="PT1H")

    assert made.model_dump(mode="json") == {
        "timer_key": 7, "due_date": "2027-01-31T08:00:00Z", "outcome": "created", "end": None,
    }  # fmt: skip
    with pytest.raises(ValueError, match="frozen"):
        made.timer_key = 8  # type: ignore[misc]
