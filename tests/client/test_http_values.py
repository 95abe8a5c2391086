"""Test that the HTTP client refuses values that JSON would change or can't contain, with their place."""

from __future__ import annotations

import inspect
import re
from collections.abc import AsyncIterator
from datetime import datetime
from decimal import Decimal
from typing import Any

import pytest
from pydantic import BaseModel

from shardclock import AsyncClient
from shardclock.http.async_processes import AsyncProcesses
from shardclock.http.async_tasks import AsyncTasks
from tests.support import ROOT

NAN, INF = float("nan"), float("inf")
LOOP: list[Any] = []
LOOP.append(LOOP)


@pytest.fixture
async def nowhere() -> AsyncIterator[AsyncClient]:
    """Open a client without a gateway: each value is refused before the client connects."""
    async with AsyncClient("http://127.0.0.1:1", retry_for="PT0S") as client:
        yield client


class Named(BaseModel):
    name: str


class Ratio(BaseModel):
    ratio: float


async def test_a_value_without_a_json_form_is_refused(nowhere: AsyncClient) -> None:
    cases: list[tuple[Any, str]] = [
        (NAN, "payload contains NaN, which is no JSON number; write None or a text"),
        ({"a": [1, INF, NAN]}, "payload contains Infinity, which is no JSON number; write None or a text"),
        (Ratio(ratio=-INF), "payload contains -Infinity, which is no JSON number; write None or a text"),
        ({1}, "payload contains {1}, and JSON has no set; write a list"),
        ({"a": [1, INF]}, "payload contains Infinity, which is no JSON number; write None or a text, at payload.a[1]"),
        ({1: 2, "b": 3}, "payload contains the key 1, and a key in JSON is a text; write '1'"),
        (
            [{"a": {None: 2}}],
            "payload contains the key None, and a key in JSON is a text; write 'null', at payload[0].a",
        ),
        ({"a": b"x"}, "payload contains b'x', and JSON has no bytes; write a text, such as their base64, at payload.a"),
        (
            [Decimal("1.10")],
            "payload contains Decimal('1.10'), which would come back as a text; write a float or a text",
        ),
        ({"a": iter([1])}, "payload contains <list_iterator"),
        ({(1, 2): 3}, "payload {(1, 2): 3} has no form in JSON: keys must be str, int, float, bool or None, not tuple"),
        (LOOP, "payload [[...]] has no form in JSON: Circular reference detected"),
    ]
    for payload, sentence in cases:
        with pytest.raises(ValueError, match=f"^{re.escape(sentence)}"):
            await nowhere.schedule(delay="PT1H", payload=payload)
        with pytest.raises(ValueError, match=f"^timer 1: {re.escape(sentence)}"):
            await anext(nowhere.schedule_many([{"delay": "PT1H", "payload": payload}]))


HALF_PAIR = "half of a surrogate pair, which UTF-8 can't encode; write whole characters"


async def test_half_of_a_surrogate_pair_is_refused(nowhere: AsyncClient) -> None:
    cases: list[tuple[dict[str, Any], str]] = [
        ({"payload": ["a", ("\ude00b",)]}, f"payload contains {HALF_PAIR}, at payload[1][0]"),
        ({"payload": {"a": {"\udfff": 1}}}, f"payload contains {HALF_PAIR}, at payload.a"),
        ({"payload": Named.model_construct(name="\ud800")}, f"payload contains {HALF_PAIR}, at payload.name"),
        ({"payload": "\ud83d\ude00"}, f"payload contains {HALF_PAIR}"),
        ({"name": "n\ud83d"}, f"name contains {HALF_PAIR}"),
        ({"target": "log\ud83d"}, f"target contains {HALF_PAIR}"),
    ]
    for fields, sentence in cases:
        many: list[Any] = [{"delay": "PT1H"}, {"delay": "PT1H"} | fields]
        with pytest.raises(ValueError, match=f"^{re.escape(sentence)}$"):
            await nowhere.schedule(delay="PT1H", **fields)
        with pytest.raises(ValueError, match=f"^{re.escape(f'timer 2: {sentence}')}$"):
            await anext(nowhere.schedule_many(many))


async def test_a_name_with_half_of_a_surrogate_pair_is_refused_wherever_it_is_written(nowhere: AsyncClient) -> None:
    for ask in (
        lambda: nowhere.get(name="n\ud83d"),
        lambda: nowhere.cancel(name="n\ud83d"),
        lambda: anext(nowhere.list(name_prefix="n\ud83d")),
    ):
        with pytest.raises(ValueError, match=rf"^name\w* '.*' is refused: it contains {HALF_PAIR}$"):
            await ask()


async def test_a_local_time_in_a_payload_stays_local(client: AsyncClient) -> None:
    made = await client.schedule(delay="PT1H", payload={"at": datetime(2030, 1, 31, 9)})  # noqa: DTZ001 - the test is about a local time

    assert (await client.get(timer_key=made.timer_key)).payload == {"at": "2030-01-31T09:00:00"}


def test_the_page_of_the_client_names_each_async_generator() -> None:
    page = (ROOT / "docs" / "http-client.md").read_text(encoding="utf-8")
    named = page.partition("is an async generator, for `async for`:")[2].partition(". ")[0]
    for of, prefix in ((AsyncClient, ""), (AsyncProcesses, "processes."), (AsyncTasks, "tasks.")):
        public = [name for name, _ in inspect.getmembers(of, inspect.isasyncgenfunction) if not name.startswith("_")]
        for name in public:
            assert f"`{prefix}{name}`" in named
            named = named.replace(f"`{prefix}{name}`", "")
    assert "`" not in named, "the others are awaited"
