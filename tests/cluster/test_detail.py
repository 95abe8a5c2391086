"""A record's detail is a JSON object, however a client reads the record."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import psycopg
import pytest

import shardclock.testing
from shardclock.log import LogRecord
from shardclock.sql import timers
from shardclock_server.sql.session import Connection, Session
from tests.support.consumers import consume_once

pytestmark = pytest.mark.asyncio


async def test_the_detail_of_a_record_is_an_object_or_none_in_the_log_in_the_clients_and_in_a_consumer() -> None:
    async with shardclock.testing.cluster() as sc:
        await sc.client.schedule(delay="PT1H", name="x")
        await sc.client.cancel(name="x", reason="r")
        await sc.client.schedule(delay="PT1S", name="y")
        await sc.advance("PT1M")

        logged = {record.name: record.detail for record in await sc.log()}
        by_http = {name: (await sc.client.records(name=name))[0].detail for name in ("x", "y")}
        streamed = {record.name: record.detail async for record in sc.client.log()}
        with psycopg.connect(sc.dsn) as connection:
            in_sql = {name: timers(connection).get(name=name).detail for name in ("x", "y")}
        async with Session(sc.dsn, application="test") as session:
            consumed: dict[str | None, Any] = {}

            async def work(_: Connection, records: Sequence[LogRecord]) -> None:
                consumed.update({record.name: record.detail for record in records})

            while await consume_once(session, "group", work):
                pass

    assert logged["x"] is not None
    assert logged["x"]["reason"] == "r"
    assert logged["y"] is None
    for found in (by_http, streamed, in_sql, consumed):
        assert found == logged
