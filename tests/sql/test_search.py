"""Prove that a search finds what was asked for, each timer once however it is paged, and reads little else."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

import pytest

from shardclock_server.sql.clients.history import Filter, TimerState, find_keys, find_timer, find_timers
from shardclock_server.sql.clients.verbs import TimerRef, cancel_timer, pause_timer, pause_timers
from shardclock_server.sql.session import Session, StatementRefused
from shardclock_server.timers.refusal import InvalidTimer
from tests.support.deliveries import HANDLER, declare
from tests.support.factories import HolderClient, add_holder, add_schedule, add_timers, query
from tests.support.sql_client import call, refusal, schedule, session

START = datetime(2031, 1, 1, tzinfo=UTC)
HOUR = timedelta(hours=1)
PENDING, PAUSED, ENDED = "PENDING", "PAUSED", "ENDED"
STATES = [PENDING, PAUSED, "TRIGGERED", "CANCELED", "SKIPPED", ENDED]


async def all_pages(
    client: Session, state: str, wanted: Filter, *, size: int, between: Callable[[], Any] | None = None
) -> list[TimerState]:
    """Read page after page; something may happen in between."""
    found: list[TimerState] = []
    after = None
    page = await find_timers(client, state, wanted, size=size)
    while page.next:
        assert len(page.timers) == size
        assert page.next != after, "no page leads to itself"
        after = page.next
        found += page.timers
        if between:
            await between()
        page = await find_timers(client, state, wanted, size=size, page=page.next)
    return found + page.timers


async def all_keys(client: Session, state: str, wanted: Filter, *, size: int) -> list[int]:
    """Read the keys alone, page after page."""
    found: list[int] = []
    while keys := await find_keys(client, state, wanted, size=size, after_key=found[-1] if found else 0):
        assert keys == sorted({*keys} - {*found}), "no page goes back"
        found += keys
    return found


# What is found


async def many(dsn: str, random: Random) -> None:
    """Make timers of all kinds: pending, paused, and ended in each way; many share a due date."""
    await declare(dsn, HANDLER)
    async with HolderClient(dsn, plans={}) as client:
        for number in range(150):
            columns = {
                "tenant_id": random.choice(["acme", "acme", "umbrella", "default"]),
                "name": random.choice([None, f"order-{number}", f"Order_{number}", f"ördér%{number}"]),
                "process_instance_key": random.choice([None, None, 7, 8]),
                "due_date": START + random.randint(0, 12) * HOUR,
                "timer_type": random.choice(["USER", "BOUNDARY"]),
                "payload": random.choice([None, '{"a": 1}']),
                "target": HANDLER if number % 7 == 0 else "log",
            }
            key = await schedule(client, **columns)
            if number % 5 == 1:
                await pause_timer(client.session, TimerRef(key))
            if number % 5 in (2, 3):
                await cancel_timer(client.session, TimerRef(key), reason="paid")
            if number % 5 == 4:
                await call(client, "reschedule_timer", timer_key=key, shift="PT1H")
        await client.value(
            "update shardclock.timers set claimed_by = 5, claimed_until = now() where timer_key = 150 returning 1"
        )
    await add_holder(dsn, 1)
    async with HolderClient(dsn, holder=1) as shard:
        shard.now = START + 3 * HOUR
        assert (await shard.take(fire_overdue=True, horizon_s=0)).fired > 10
        for missed in ("fire_once", "skip"):
            await add_schedule(
                dsn, "R9/PT1H", "now() - interval '8 hours'", missed=f"'{missed}'", name=f"'order-{missed}'",
                anchor="now() - interval '9 hours'", repetitions="9",
            )  # fmt: skip
        shard.now = None
        await shard.fire((await shard.take(scope="sweep")).claimed)


# Newest first, and what has not ended, soonest first.
HISTORY = """
    select h.timer_key, h.state, h.tenant_id, h.name, h.timer_type, h.process_instance_key, h.element_instance_key,
        h.target_element_id, h.due_date, h.created_at, h.schedule, h.zone, h.missed, h.occurrence, h.target,
        h.payload::text as payload, h.ended_at, h.holder, h.detail::text as detail
    from shardclock.timer_history h
    left join shardclock.command_log l on l.timer_key = h.timer_key and l.intent = h.state
    order by l.position desc, h.due_date, h.timer_key
"""


def wanted_from(timers: Sequence[TimerState], state: str, wanted: Filter) -> list[TimerState]:
    """Filter as a search must."""
    chosen = [
        it
        for it in timers
        if (it.state == state or (state == ENDED and it.ended_at))
        and wanted.tenant_id in (None, it.tenant_id)
        and (wanted.name_prefix is None or (it.name or "").startswith(wanted.name_prefix))
        and (wanted.due_from is None or it.due_date >= wanted.due_from)
        and (wanted.due_before is None or it.due_date < wanted.due_before)
        and wanted.process_instance_key in (None, it.process_instance_key)
        and wanted.target in (None, it.target)
    ]
    # Paused ones all lie at the end of time, in the order of their keys.
    return sorted(chosen, key=lambda it: it.timer_key) if state == PAUSED else chosen


def drawn_filter(random: Random) -> Filter:
    """Draw a filter: some parts of it, or none."""
    tenant = random.choice([None, "acme", "umbrella", "default", "nobody"])
    return Filter(
        tenant_id=tenant,
        name_prefix=random.choice([None, "order-", "Order_", "ö", "order-1", "%"]) if tenant else None,
        due_from=random.choice([None, START + random.randint(0, 12) * HOUR]),
        due_before=random.choice([None, START + random.randint(0, 14) * HOUR]),
        process_instance_key=random.choice([None, None, 7, 8, 9]),
        target=random.choice([None, None, HANDLER, "log", "nowhere"]),
    )


@pytest.mark.slow
async def test_every_filter_alone_and_combined_finds_what_it_asks_for_in_order_and_once(each_dsn: str) -> None:
    random = Random(3)
    await many(each_dsn, random)
    timers = [TimerState(**dict(row)) for row in await query(each_dsn, HISTORY)]
    alone = [
        Filter(),
        Filter(tenant_id="acme"),
        Filter(tenant_id="acme", name_prefix="order-"),
        Filter(due_from=START + 5 * HOUR),
        Filter(due_before=START + 5 * HOUR),
        Filter(process_instance_key=7),
        Filter(target=HANDLER),
        Filter(target="log"),
    ]
    found = 0

    async with session(each_dsn) as client:
        for wanted in [*alone, *(drawn_filter(random) for _ in range(60))]:
            for state in STATES:
                size = random.choice([1, 3, 7, 1_000])
                expected = wanted_from(timers, state, wanted)
                assert await all_pages(client, state, wanted, size=size) == expected, (state, wanted, size)
                if state in {PENDING, PAUSED}:
                    assert await all_keys(client, state, wanted, size=size) == sorted(it.timer_key for it in expected)
                found += len(expected)

    assert {it.state for it in timers} == set(STATES) - {ENDED}
    assert found > 1_000


async def test_a_timer_is_found_by_key_or_name_with_all_that_is_known_of_it(client: HolderClient) -> None:
    key = await schedule(client, due_date=START, name="n", zone="Asia/Tokyo")
    await pause_timer(client.session, TimerRef(key))

    paused = await find_timer(client.session, TimerRef(key))

    assert paused
    assert paused == await find_timer(client.session, TimerRef(name="n"))
    assert (paused.state, paused.due_date, paused.zone, paused.missed) == (PAUSED, START, "Asia/Tokyo", "fire_once")
    assert (await find_timers(client.session, PAUSED, Filter())).timers == [paused]
    assert await find_timer(client.session, TimerRef(name="n", tenant_id="other")) is None


# Pages


@pytest.mark.parametrize("wanted", [Filter(), Filter(tenant_id="default")], ids=["all", "tenant"])
@pytest.mark.parametrize("state", [PENDING, PAUSED])
async def test_pages_of_timers_with_one_due_date_give_each_once(dsn: str, state: str, wanted: Filter) -> None:
    keys = await add_timers(dsn, 2_000, "'2031-01-01 00:00:00.123456+00'")
    async with session(dsn) as client:
        if state == PAUSED:
            await pause_timers(client, keys)

        for size in (999, 1_000):
            found = await all_pages(client, state, wanted, size=size)
            assert [timer.timer_key for timer in found] == keys


async def test_what_comes_and_goes_between_two_pages_changes_no_other_page(client: HolderClient) -> None:
    keys = await add_timers(client.dsn, 30, "now() + i * interval '1 hour'")
    # One that was on a page already, one that is still to come, and one that is new.
    steps: Iterator[Callable[[], Any]] = iter(
        [
            lambda: cancel_timer(client.session, TimerRef(keys[0])),
            lambda: cancel_timer(client.session, TimerRef(keys[20])),
            lambda: add_timers(client.dsn, 1, "now()"),
        ]
    )

    async def step() -> None:
        if act := next(steps, None):
            await act()

    found = await all_pages(client.session, PENDING, Filter(), size=7, between=step)

    assert [timer.timer_key for timer in found] == [key for key in keys if key != keys[20]]


async def test_a_page_is_the_same_whatever_the_clients_zone_and_style_of_dates(client: HolderClient) -> None:
    keys = await add_timers(client.dsn, 9, "'2031-01-01'::timestamptz + i * interval '1.000001 second'")
    page = None
    for number, style in enumerate(["ISO, DMY", "SQL, DMY", "German", "Postgres, MDY"] * 2):
        await client.value("select set_config('datestyle', $1, false)", style)
        await client.value("select set_config('timezone', $1, false)", ["Asia/Tokyo", "America/New_York"][number % 2])

        key, page = await client.value(
            "select row(f.timer_key, f.page) from shardclock.find_timers(page => $1, page_size => 1) f", page
        )

        assert key == keys[number]


NOT_A_PAGE = "is not one that a search for {} gave"
REFUSED: list[tuple[dict[str, str], str]] = [
    ({"state": "'ENDING'"}, 'state "ENDING" is unknown: use PENDING, PAUSED, TRIGGERED, CANCELED, SKIPPED or ENDED'),
    ({"state": "null"}, 'state "<NULL>" is unknown: use PENDING, PAUSED, TRIGGERED, CANCELED, SKIPPED or ENDED'),
    ({"page_size": "0"}, "page_size 0 is not possible: use 1 to 10000"),
    ({"page_size": "10001"}, "page_size 10001 is not possible: use 1 to 10000"),
    ({"name_prefix": "'order'"}, 'name_prefix "order" needs a tenant_id: names are a tenant\'s own'),
    ({"page": "''"}, f'page "" {NOT_A_PAGE.format("PENDING")}'),
    ({"page": "'7/8'"}, f'page "7/8" {NOT_A_PAGE.format("PENDING")}'),
    ({"page": "'2031-01-01 00:00:00+00'"}, f'page "2031-01-01 00:00:00+00" {NOT_A_PAGE.format("PENDING")}'),
    (
        {"page": "'2031-01-01 00:00:00+00/1; drop'"},
        f'page "2031-01-01 00:00:00+00/1; drop" {NOT_A_PAGE.format("PENDING")}',
    ),
    (
        {"state": "'ENDED'", "page": "'2031-01-01 00:00:00+00/8'"},
        f'page "2031-01-01 00:00:00+00/8" {NOT_A_PAGE.format("ENDED")}',
    ),
    ({"state": "'PAUSED'", "page": "'7/8'"}, f'page "7/8" {NOT_A_PAGE.format("PAUSED")}'),
    ({"state": "'ENDED'", "page": f"'{10**19}/8'"}, f'page "{10**19}/8" {NOT_A_PAGE.format("ENDED")}'),
]


async def test_a_search_says_what_it_refuses(client: HolderClient) -> None:
    for arguments, sentence in REFUSED:
        assert await refusal(client, "find_timers", **arguments) == sentence

    # What has the form of a page and is none, Postgres itself refuses.
    with pytest.raises(InvalidTimer, match=r"out of range: "):
        await find_timers(client.session, PENDING, Filter(), page="2031-99-01 00:00:00+00/8")
    for state in ("ENDED", "ALL"):
        with pytest.raises(StatementRefused, match=f'state "{state}" is unknown here: use PENDING or PAUSED'):
            await find_keys(client.session, state, Filter(), size=10)
    with pytest.raises(InvalidTimer, match='state "ALL" is unknown'):
        await find_timers(client.session, "ALL", Filter())
