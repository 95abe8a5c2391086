"""Test that each method of the client does its work through a gateway."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from pydantic import BaseModel

from shardclock import AsyncClient
from shardclock.api.fields import Length, New
from shardclock.http import NotFound, async_sending, requests
from tests.support.factories import BOUND_S, HolderClient, pending_rows, value
from tests.support.gateways import Api
from tests.support.waiting import eventually

MORNING = datetime(2030, 1, 31, 8, tzinfo=UTC)
ODD_NAMES = ["a b", "50%", "a%41", "ä?x#y&z", ".", "..", "a:b;c=d+e", "a/b", "/", "a%2Fb"]


class Order(BaseModel):
    order: int


async def fire(shard: HolderClient) -> None:
    """Fire a timer as soon as it is due."""

    async def has_fired() -> bool:
        claimed = (await shard.take(horizon_s=0.0)).claimed
        return bool(claimed and (await shard.fire(claimed)).timer_keys)

    await eventually(has_fired)


async def test_a_timer_is_scheduled_and_found_by_its_key_and_by_its_name(client: AsyncClient) -> None:
    made = await client.schedule(due_date=MORNING, name="order-42", payload=Order(order=42), target="log")

    assert (made.outcome, made.due_date, made.end) == ("created", MORNING, None)
    found = await client.get(timer_key=made.timer_key)
    assert found == await client.get(name="order-42")
    assert (found.state, found.name, found.payload, found.due_date) == ("PENDING", "order-42", {"order": 42}, MORNING)
    assert found.etag is not None


async def test_moments_and_durations_may_be_python_objects_or_text(client: AsyncClient) -> None:
    berlin = datetime(2030, 1, 31, 9, tzinfo=ZoneInfo("Europe/Berlin"))
    given: list[New] = [
        {"due_date": berlin},
        {"due_date": datetime(2030, 1, 31, 9), "zone": "Europe/Berlin"},  # noqa: DTZ001 - on the clock of the zone
        {"due_date": "2030-01-31T08:00:00Z"},
    ]
    assert {(await client.schedule(**timer)).due_date for timer in given} == {MORNING}

    lengths: list[Length] = [timedelta(days=1, hours=2, microseconds=500_000), "P1DT2H0.5S"]
    due = [(await client.schedule(delay=length)).due_date for length in lengths]
    assert abs(due[1] - due[0]) < timedelta(seconds=BOUND_S)


async def test_a_payload_may_be_any_json_value(client: AsyncClient) -> None:
    for payload in (None, False, 0, "", "ä\n", [1, {"a": None}], {"at": MORNING, "order": Order(order=1)}):
        made = await client.schedule(delay="PT1H", payload=payload)
        found = (await client.get(timer_key=made.timer_key)).payload
        assert found == (
            {"at": "2030-01-31T08:00:00Z", "order": {"order": 1}} if isinstance(payload, dict) else payload
        )
    with pytest.raises(ValueError, match=r"^payload contains NaN, which is no JSON number"):
        await client.schedule(delay="PT1H", payload=float("nan"))


async def test_the_first_put_creates_the_timer_of_a_name_and_a_later_put_replaces_the_timer(
    client: AsyncClient,
) -> None:
    rules = ["0 9 * * MON", "0 8 * * MON", "0 8 * * MON"]
    made = [await client.put("standup", schedule=rule, zone="Europe/Berlin", missed="skip") for rule in rules]

    assert [it.outcome for it in made] == ["created", "replaced", "unchanged"]
    found = await client.get(name="standup")
    assert (found.schedule, found.zone, found.missed) == ("0 8 * * MON", "Europe/Berlin", "skip")


async def test_a_name_with_special_characters_of_urls_finds_its_timer(client: AsyncClient) -> None:
    for name in ODD_NAMES:
        made = await client.schedule(delay="PT1H", name=name)
        assert (await client.get(name=name)).timer_key == made.timer_key
        assert (await client.cancel(name=name)).name == name


async def test_a_list_has_all_pages(client: AsyncClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(requests, "PAGE", 2)
    for number in range(5):
        await client.schedule(due_date=MORNING + timedelta(hours=number), name=f"order-{number}")
    await client.schedule(delay="PT1H", name="other")
    await client.pause(name="order-4")

    async def names(**chosen: object) -> list[str | None]:
        return [timer.name async for timer in client.list(**chosen)]  # type: ignore[arg-type]

    assert await names() == ["other", "order-0", "order-1", "order-2", "order-3"]
    assert await names(name_prefix="order-") == ["order-0", "order-1", "order-2", "order-3"]
    assert await names(due_from=MORNING + timedelta(hours=1), due_before=MORNING + timedelta(hours=3)) == [
        "order-1",
        "order-2",
    ]
    assert await names(state="paused") == ["order-4"]
    assert await names(state="paused", order_by="change", changed_from=MORNING - timedelta(days=36_500)) == ["order-4"]
    assert await names(name_contains="RDER-3") == ["order-3"]
    assert await names(only_schedules=True) == []
    assert await names(name="nobody") == []


async def test_a_timer_is_moved_paused_resumed_run_and_cancelled(client: AsyncClient) -> None:
    key = (await client.schedule(due_date=MORNING, name="n")).timer_key

    moved = await client.move(timer_key=key, shift=timedelta(hours=-1), if_match=(await client.get(timer_key=key)).etag)
    assert moved.due_date == MORNING - timedelta(hours=1)
    assert (await client.move(name="n", delay="P1D")).state == "RESCHEDULED"
    assert (await client.pause(name="n", reason="strike", until=timedelta(hours=2), missed="skip")).state == "PAUSED"
    ends_at = (await client.get(name="n")).resume_at
    assert ends_at is not None
    assert timedelta(hours=1) < ends_at - datetime.now(UTC) <= timedelta(hours=2)
    assert (await client.resume(timer_key=key, missed="skip")).state == "PENDING"
    assert (await client.run(timer_key=key)).state == "RESCHEDULED"
    assert (await client.get(timer_key=key)).due_date <= datetime.now(UTC) + timedelta(seconds=BOUND_S)
    assert (await client.cancel(timer_key=key, reason="paid")).state == "CANCELED"

    intents = [record.intent for record in await client.records(timer_key=key)]
    assert intents[0] == "CANCELED"
    assert len(await client.records(timer_key=key, limit=1)) == 1
    explained = await client.explain(timer_key=key, at=MORNING)
    assert explained.moment == MORNING
    assert explained.why


async def test_a_create_can_wait_for_the_timers_end(client: AsyncClient, shard: HolderClient) -> None:
    task = asyncio.create_task(client.schedule(delay="PT0S", wait=timedelta(seconds=30)))
    await fire(shard)

    end = (await task).end
    assert end is not None
    assert (end.intent, end.timer_key) == ("TRIGGERED", (await task).timer_key)
    assert (await client.schedule(delay="PT1H", wait="PT0.1S")).end is None


async def test_a_long_wait_for_an_end_is_split_into_several_requests(
    client: AsyncClient, shard: HolderClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(async_sending, "WAIT_S_MAX", 0.1)
    made = await client.schedule(delay="PT1S", name="n")
    by_name = asyncio.create_task(client.wait_for_end(name="n", within="PT30S"))
    by_key = asyncio.create_task(client.wait_for_end(timer_key=made.timer_key, within=timedelta(seconds=30)))
    await fire(shard)

    for task in (by_name, by_key):
        end = await task
        assert end is not None
        assert (end.intent, end.timer_key) == ("TRIGGERED", made.timer_key)


async def test_a_wait_for_a_timer_that_does_not_end_returns_none(
    client: AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(async_sending, "WAIT_S_MAX", 0.1)
    await client.schedule(delay="PT1H", name="n")

    assert await client.wait_for_end(name="n", within="PT0.3S") is None
    assert await client.wait_for_end(name="n", within="PT0S") is None
    with pytest.raises(NotFound):
        await client.wait_for_end(name="nobody", within="PT1S")


async def test_a_stopping_gateway_is_polled_with_a_pause(
    gateway: Api, client: AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    await client.schedule(delay="PT1H", name="n")
    gateway.stop()

    assert await client.wait_for_end(name="n", within="PT1S") is None
    asked = sum(count for (operation, _), count in gateway.app.state.stats.answered.items() if operation == "get_end")
    assert 1 <= asked <= 4


async def test_a_bulk_change_counts_first_and_then_commits(dsn: str, client: AsyncClient) -> None:
    for number in range(3):
        await client.schedule(due_date=MORNING, name=f"order-{number}")
    await client.schedule(due_date=MORNING, name="other")

    counted = await client.bulk(
        "shift", shift=timedelta(hours=1), name_prefix="order-", due_before=MORNING + timedelta(1)
    )
    assert counted.matched == 3
    assert {row["due_date"] for row in await pending_rows(dsn)} == {MORNING}
    assert (await counted.commit()).changed == 3
    again = await counted.commit()  # a repeated request with the same count moves no timer twice
    assert (again.changed, again.unchanged, again.unchanged_reasons) == (0, 3, {"nothing_to_change": 3})
    assert (await client.bulk("cancel", state="paused", name_prefix="order-")).matched == 0
    cancelled = await (await client.bulk("cancel", reason="strike", name_prefix="order-")).commit()
    assert (cancelled.matched, cancelled.changed, cancelled.unsure) == (3, 3, 0)
    assert [row["name"] for row in await pending_rows(dsn)] == ["other"]


async def test_the_outcomes_of_many_timers_are_in_the_order_of_the_timers(dsn: str, client: AsyncClient) -> None:
    timers: list[New] = [{"delay": "PT1H", "name": f"n{number}"} for number in range(7)]
    timers[3] = {"delay": "soon"}

    lines = [line async for line in client.schedule_many(iter(timers), part_lines=2)]

    assert [(line.line, line.outcome) for line in lines] == [
        (number, "refused" if number == 4 else "created") for number in range(1, 8)
    ]
    assert "soon" in str(lines[3].why)
    keys = {line.timer_key for line in lines if line.timer_key}
    assert keys == {row["timer_key"] for row in await pending_rows(dsn)}
    assert [line async for line in client.schedule_many([])] == []


async def test_schedule_many_refuses_invalid_arguments_before_it_sends_a_request(dsn: str, client: AsyncClient) -> None:
    for part_lines in (0, 10_001):
        with pytest.raises(ValueError, match=r"it must be a whole number from 1 to 10,000"):
            [line async for line in client.schedule_many([], part_lines=part_lines)]
    cases: tuple[Any, ...] = ({"delay": "PT1H"}, "PT1H", b"PT1H", 7, None)
    for timers in cases:
        rule = f"timers {timers!r} is refused: it must be an iterable of timers; for one, write [timer]"
        with pytest.raises(TypeError, match=f"^{re.escape(rule)}"):
            await anext(client.schedule_many(timers))
    rule = "timer 2, 'PT1H', is refused: it must be a mapping of a timer's fields, such as {'delay': 'PT1H'}"
    many: list[Any] = [{"delay": "PT1H"}, "PT1H"]
    with pytest.raises(TypeError, match=f"^{re.escape(rule)}$"):
        await anext(client.schedule_many(many))
    assert await pending_rows(dsn) == []


async def test_the_log_is_read_to_its_end_and_then_followed(
    client: AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(requests, "PAGE", 2)
    for name in "abc":
        await client.schedule(delay="PT1H", name=name)
        await client.cancel(name=name)

    records = [record async for record in client.log()]
    assert [record.name for record in records] == ["a", "b", "c"]
    assert [record.name async for record in client.log(after=records[0].position)] == ["b", "c"]

    followed = client.log(after=records[1].position, follow=True)
    assert (await anext(followed)).name == "c"
    await client.schedule(delay="PT1H", name="d")
    await client.cancel(name="d")
    async with asyncio.timeout(BOUND_S):
        assert (await anext(followed)).name == "d"
    await followed.aclose()  # type: ignore[attr-defined] # it is a generator


async def test_an_unknown_filter_is_refused_with_the_names_of_all_filters(client: AsyncClient) -> None:
    filters = ", ".join(requests.TimerQuery.__annotations__)
    for found in (client.list(limit=3), client.list(after="x"), client.list_schedules(limit=3)):  # type: ignore[call-arg]
        with pytest.raises(TypeError, match=rf"^'(limit|after)' is not a filter of timers; the filters are {filters}$"):
            await anext(found)


async def test_a_client_of_a_tenant_finds_its_own_timers(dsn: str, gateway: Api, client: AsyncClient) -> None:
    async with AsyncClient(gateway.url, tenant="Müller & Söhne") as other:
        made = await other.schedule(delay="PT1H", name="n")
        assert (await other.get(timer_key=made.timer_key)).tenant_id == "Müller & Söhne"
    with pytest.raises(NotFound):
        await client.get(timer_key=made.timer_key)
    assert await value(dsn, "select tenant_id from shardclock.timers") == "Müller & Söhne"


async def test_a_timer_must_be_named_by_exactly_one_of_key_and_name(client: AsyncClient) -> None:
    which: list[dict[str, Any]] = [{}, {"timer_key": 7, "name": "n"}]
    methods: list[Callable[..., Awaitable[Any]]] = [
        client.get, client.move, client.cancel, client.pause, client.resume, client.run, client.records, client.explain,
        partial(client.wait_for_end, within="PT1S"),
    ]  # fmt: skip
    for method in methods:
        for named in which:
            with pytest.raises(
                TypeError, match=r"^a timer is named by timer_key= or by name=: give exactly one of them$"
            ):
                await method(**named)


async def test_a_timer_key_that_is_not_an_integer_is_refused(client: AsyncClient) -> None:
    keys: tuple[Any, ...] = ("abc", "7", 7.5, b"7", [7])
    for key in keys:
        with pytest.raises(ValueError, match=r"as the gateway gave it; if it is the timer's name, give it by name=$"):
            await client.get(timer_key=key)
        for name, ask in (
            ("timer_key", client.redrive(key)),
            ("timer_key", client.wait_for_run("job", key, within="PT1S")),
            ("definition_key", client.processes.model(key)),
            ("instance_key", client.processes.show(key)),
            ("task_key", client.tasks.show(key)),
        ):
            rule = f"{name} {key!r} is refused: it must be a whole number, as the gateway gave it"
            with pytest.raises(ValueError, match=f"^{re.escape(rule)}"):
                await ask
