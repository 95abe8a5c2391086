"""Test that values arrive unchanged with any settings of the user's connection."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import asyncpg
import psycopg
import pytest
from psycopg.rows import dict_row
from pydantic import BaseModel

from shardclock.sql import Refused, timers
from tests.support.factories import BOUND_S
from tests.support.roles import as_role
from tests.support.user_connections import UserConnection

MORNING = datetime(2030, 1, 31, 8, tzinfo=UTC)
LATE = datetime(9999, 12, 31, 23, 59, tzinfo=UTC)  # in Tokyo it is the year 10000, which Python does not support
PAYLOADS: list[Any] = [
    None, False, 0, "", "ä\n€😀 %s %(asked)s $1 :asked \\ \" '", [1, {"a": None}], {}, 2**70, -1.5, 1.5e-7,
    {"asked": {"due_date": 1}}, [[[[]]]],
]  # fmt: skip


class Order(BaseModel):
    order: int


async def test_a_payload_is_returned_unchanged(user: UserConnection) -> None:
    for payload in PAYLOADS:
        made = await user.ask("schedule", delay="PT1H", payload=payload)
        assert (await user.ask("get", timer_key=made.timer_key)).payload == payload


async def test_a_payload_that_json_would_change_is_refused(one: UserConnection) -> None:
    for payload, words in (({"a": {1: 2}}, r"the key 1, .* at payload\.a"), ([b"x"], r"no bytes.* at payload\[0\]")):
        with pytest.raises(ValueError, match=f"^payload contains .*{words}"):
            await one.ask("schedule", delay="PT1H", payload=payload)


async def test_a_payload_may_be_a_model_and_have_moments(one: UserConnection) -> None:
    made = await one.ask("schedule", delay="PT1H", payload={"at": MORNING, "order": Order(order=1)})

    found = await one.ask("get", timer_key=made.timer_key)
    assert found.payload == {"at": "2030-01-31T08:00:00Z", "order": {"order": 1}}


async def test_a_moment_may_be_a_datetime_or_a_text(one: UserConnection) -> None:
    await one.fetch("set local timezone = 'Asia/Tokyo'")
    await one.fetch("set local datestyle = 'German, DMY'")
    await one.ask("schedule", delay="PT1H", name="n")
    cases: tuple[dict[str, Any], ...] = (
        {"due_date": MORNING},
        {"due_date": datetime(2030, 1, 31, 9, tzinfo=ZoneInfo("Europe/Berlin"))},
        {"due_date": datetime(2030, 1, 31, 9), "zone": "Europe/Berlin"},  # noqa: DTZ001 - on the clock of the zone
        {"due_date": "2030-01-31T08:00:00Z"},
        {"due_date": "2030-01-31T09:00:00+01:00"},
        {"due_date": "2030-01-31T09:00", "zone": "Europe/Berlin"},
    )
    for given in cases:
        assert (await one.ask("schedule", **given)).due_date == MORNING
        await one.ask("move", name="n", delay="PT1H")
        await one.ask("move", name="n", **given)
        assert (await one.ask("get", name="n")).due_date == MORNING


async def test_a_moment_finer_than_a_microsecond_is_rounded_up(one: UserConnection) -> None:
    for text, us in (("2031-01-31T08:00:00.0000011Z", 2), ("2031-01-31T08:00:00,00000100Z", 1)):
        assert (await one.ask("schedule", due_date=text)).due_date == datetime(2031, 1, 31, 8, 0, 0, us, tzinfo=UTC)


async def test_a_duration_may_be_a_timedelta_or_a_text(one: UserConnection) -> None:
    for length in (timedelta(days=1, hours=2, microseconds=500_000), "P1DT2H0.5S"):
        due = (await one.ask("schedule", delay=length)).due_date
        ((began,),) = await one.fetch("select now()")
        assert due - began == timedelta(days=1, hours=2, microseconds=500_000)


async def test_an_invalid_value_is_refused(one: UserConnection) -> None:
    cases: list[tuple[dict[str, Any], str]] = [
        ({"delay": "PT1H", "target": "nobody"}, "nobody"),
        ({"delay": "PT1H", "process_instance_key": 2**63}, "out of range for type bigint"),
        ({"delay": "PT1H", "schedule": "R/PT1H"}, "give exactly one of"),
        ({"due_date": datetime.max.replace(tzinfo=UTC)}, "out of range"),
    ]
    for fields, words in cases:
        with pytest.raises(Refused, match=words):
            await one.ask("schedule", **fields)
        await one.rollback()


async def test_the_refusal_of_a_pauses_end_names_moments_and_durations(one: UserConnection) -> None:
    with pytest.raises(
        Refused, match=r"write it like 2026-.*, a timedelta, or an ISO 8601 duration such as PT2H"
    ) as no:
        await one.ask("pause", name="n", until="2h")
    assert no.value.code == "invalid_until"


@pytest.fixture(params=["dict_row", "RawCursor", "latin1", "tokyo", "search_path"])
async def odd_psycopg(request: pytest.FixtureRequest, dsn: str) -> AsyncIterator[psycopg.Connection[Any]]:
    """Provide a connection of psycopg with unusual settings."""
    changed: dict[str, dict[str, Any]] = {
        "dict_row": {"row_factory": dict_row},
        "RawCursor": {"cursor_factory": psycopg.RawCursor},
        "latin1": {"client_encoding": "latin1"},
        "tokyo": {"options": "-c timezone=Asia/Tokyo -c datestyle=German"},
        "search_path": {"options": "-c search_path=shardclock"},
    }
    with psycopg.connect(as_role(dsn, "scheduler"), **changed[request.param]) as connection:
        yield connection
        connection.rollback()


def test_a_users_settings_of_psycopg_change_no_value(odd_psycopg: psycopg.Connection[Any]) -> None:
    asked = timers(odd_psycopg)
    made = asked.schedule(due_date=LATE, name="é", payload={"a": "é"})
    asked.pause(name="é")

    found = asked.get(timer_key=made.timer_key)
    assert (made.due_date, found.due_date, found.state) == (LATE, LATE, "PAUSED")
    assert (found.name, found.payload) == ("é", {"a": "é"})
    assert found.created_at.tzinfo is not None
    assert asked.schedule(delay="PT1H", payload={"a": "€", "b": "😀"}).outcome == "created"


async def test_a_users_settings_of_asyncpg_change_no_value(dsn: str) -> None:
    connection = await asyncpg.connect(
        as_role(dsn, "scheduler"), timeout=BOUND_S, server_settings={"timezone": "Asia/Tokyo"}
    )
    try:
        for kind in ("json", "jsonb"):
            await connection.set_type_codec(kind, schema="pg_catalog", encoder=json.dumps, decoder=json.loads)
        async with connection.transaction():
            made = await timers(connection).schedule(due_date=LATE, payload={"a": "ä€"})
            found = await timers(connection).get(timer_key=made.timer_key)
    finally:
        await connection.close(timeout=BOUND_S)

    assert (found.due_date, found.payload) == (LATE, {"a": "ä€"})
