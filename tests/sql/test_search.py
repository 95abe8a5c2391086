"""Prove that a search returns each matching timer once at every page size, and reads few other rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

import asyncpg
import pytest

from shardclock.api.refusals.timers import NEEDS_ONE_NAME
from shardclock_server.sql.clients import search
from shardclock_server.sql.clients.history import TimerState, find_timer
from shardclock_server.sql.clients.search import (
    PageLimits,
    TimerCount,
    TimerFilter,
    count_timers,
    find_keys,
    find_timers,
)
from shardclock_server.sql.clients.verbs import TimerRef, cancel_timer, pause_timer, pause_timers, run_timer
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
    client: Session, state: str, wanted: TimerFilter, *, size: int, between: Callable[[], Any] | None = None
) -> list[TimerState]:
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


async def all_keys(client: Session, state: str, wanted: TimerFilter, *, size: int) -> list[int]:
    found: list[int] = []
    while keys := await find_keys(client, state, wanted, size=size, after_key=found[-1] if found else 0):
        assert keys == sorted({*keys} - {*found}), "no page goes back"
        found += keys
    return found


# Matching timers


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
                until = datetime(2040, 1, 1, tzinfo=UTC) if number % 2 else None
                await pause_timer(client.session, TimerRef(key), until=until)
            if number % 5 in (2, 3):
                await cancel_timer(client.session, TimerRef(key), reason="paid")
            if number % 5 == 4:
                await call(client, "reschedule_timer", timer_key=key, shift="PT1H")
        await client.value(
            "update shardclock.timers set claimed_by = 5, claimed_until = now() where timer_key = 150 returning 1"
        )
    for number in range(12):
        await add_schedule(
            dsn, "R/PT1H", f"'{START}'::timestamptz + interval '{number} hours'", tenant_id="'acme'",
            name=f"'order-{number}-weekly'",
        )  # fmt: skip
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


# Ended timers newest first, others soonest first.
HISTORY = """
    select h.timer_key, h.state, h.tenant_id, h.name, h.timer_type, h.process_instance_key, h.element_instance_key,
        h.target_element_id, h.due_date, h.created_at, h.changed_at, h.resume_at, h.schedule, h.zone, h.missed,
        h.occurrence, h.target, h.payload::text as payload, h.ended_at, h.holder, h.detail::text as detail
    from shardclock.timer_history h
    left join shardclock.command_log l on l.timer_key = h.timer_key and l.intent = h.state
    order by l.position desc, h.due_date, h.timer_key
"""


def is_within(moment: datetime | None, start: datetime | None, end: datetime | None) -> bool:
    """Return whether a moment is within a window. If the moment is None, return whether the window is None."""
    if moment is None:
        return start is None and end is None
    return (start is None or moment >= start) and (end is None or moment < end)


def wanted_from(timers: Sequence[TimerState], state: str, wanted: TimerFilter) -> list[TimerState]:
    """Return the expected result of a search with this filter."""
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
        and (it.schedule is not None or not wanted.only_schedules)
        and (wanted.name_contains is None or wanted.name_contains.lower() in (it.name or "").lower())
        and is_within(it.ended_at or it.changed_at, wanted.changed_from, wanted.changed_before)
    ]
    if wanted.name_contains is not None and state in {PENDING, PAUSED}:
        return sorted(chosen, key=lambda it: (it.name or "").encode())
    # All paused timers have the same due date at the end of time, so their keys determine the order.
    return sorted(chosen, key=lambda it: it.timer_key) if state == PAUSED else chosen


def drawn_filter(random: Random, changes: Sequence[datetime]) -> TimerFilter:
    """Draw a filter with random conditions, or without conditions."""
    tenant = random.choice([None, "acme", "umbrella", "default", "nobody"])
    names = random.choice(["name_prefix", "name_contains", None]) if tenant else None
    named = {names: random.choice(["order-", "Order_", "ö", "order-1", "%", "7"])} if names else {}
    change = random.choice([None, None, "changed_from", "changed_before"]) if tenant else None
    changed = {change: random.choice(changes)} if change else {}
    return TimerFilter(
        tenant_id=tenant,
        only_schedules=random.choice([False, False, True]),
        **named,  # type: ignore[arg-type]
        **changed,  # type: ignore[arg-type]
        due_from=random.choice([None, START + random.randint(0, 12) * HOUR]),
        due_before=random.choice([None, START + random.randint(0, 14) * HOUR]),
        process_instance_key=random.choice([None, None, 7, 8, 9]),
        target=random.choice([None, None, HANDLER, "log", "nowhere"]),
    )


@pytest.mark.slow
async def test_each_filter_and_each_combination_of_filters_finds_its_timers_once_and_in_order(each_dsn: str) -> None:
    random = Random(3)
    await many(each_dsn, random)
    timers = [TimerState.of(dict(row)) for row in await query(each_dsn, HISTORY)]
    alone = [
        TimerFilter(),
        TimerFilter(tenant_id="acme"),
        TimerFilter(tenant_id="acme", name_prefix="order-"),
        TimerFilter(due_from=START + 5 * HOUR),
        TimerFilter(due_before=START + 5 * HOUR),
        TimerFilter(process_instance_key=7),
        TimerFilter(target=HANDLER),
        TimerFilter(target="log"),
        TimerFilter(only_schedules=True),
        TimerFilter("acme", only_schedules=True),
        TimerFilter("acme", name_contains="RDER-1"),
    ]
    changes = [it.changed_at for it in timers if it.changed_at]
    found = 0

    async with session(each_dsn) as client:
        for wanted in [*alone, *(drawn_filter(random, changes) for _ in range(90))]:
            for state in STATES:
                size = random.choice([1, 3, 7, 1_000])
                expected = wanted_from(timers, state, wanted)
                assert await all_pages(client, state, wanted, size=size) == expected, (state, wanted, size)
                if state in {PENDING, PAUSED}:
                    assert await all_keys(client, state, wanted, size=size) == sorted(it.timer_key for it in expected)
                    assert await count_timers(client, state, wanted, most=1_000) == TimerCount(len(expected), 0, True)
                found += len(expected)

    assert {it.state for it in timers} == set(STATES) - {ENDED}
    assert found > 1_000


async def test_a_count_ends_at_its_limit_and_leaves_out_timers_of_processes(client: HolderClient) -> None:
    await add_timers(client.dsn, 7, f"'{START}'::timestamptz")
    await query(client.dsn, "update shardclock.timers set target = 'process:instance' where timer_key <= 2")

    counts = [await count_timers(client.session, PENDING, TimerFilter(), most=most) for most in (8, 7)]

    assert counts == [TimerCount(5, 2, is_whole=True), TimerCount(5, 2, is_whole=False)]
    with pytest.raises(InvalidTimer, match="give only one of"):
        await count_timers(client.session, PENDING, TimerFilter("a", name_contains="b", name_prefix="c"), most=10)
    with pytest.raises(StatementRefused, match="state 'ENDED' is unknown here: use PENDING or PAUSED"):
        await count_timers(client.session, "ENDED", TimerFilter(), most=10)


@pytest.mark.parametrize("state", [PENDING, PAUSED])
async def test_timers_can_be_ordered_by_their_last_change_including_pauses(client: HolderClient, state: str) -> None:
    keys = await add_timers(client.dsn, 9, f"'{START}'::timestamptz", name="'t-' || i")
    for key in (keys[4], keys[1], keys[7]):
        await (pause_timer if state == PAUSED else run_timer)(client.session, TimerRef(key))
    # A move of a paused timer is not a change here: the search is for timers that have been paused for long.
    if state == PAUSED:
        await call(client, "reschedule_timer", timer_key=keys[4], shift="PT1H")
    wanted = TimerFilter("default")

    found: list[TimerState] = []
    page = await find_timers(client.session, state, wanted, order_by="change", size=2)
    found += page.timers
    page = await find_timers(client.session, state, wanted, order_by="change", size=2, page=page.next)
    found += page.timers

    assert [it.timer_key for it in found] == [keys[7], keys[1], keys[4]]
    assert page.next is None
    window = replace(wanted, changed_from=found[1].changed_at, changed_before=found[0].changed_at)
    for order_by in ("change", "due", None):
        assert (await find_timers(client.session, state, window, order_by=order_by)).timers == [found[1]]


async def test_a_search_within_names_reads_them_in_sections(
    client: HolderClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search, "STEP_LEAST", 10)
    monkeypatch.setattr(search, "STEP_MOST", 10)
    await add_timers(
        client.dsn, 45, "now() + interval '1 hour'", name="case i % 20 when 7 then 'A-X-' else 'a-' end || i"
    )
    await add_timers(client.dsn, 5, "now() + interval '1 hour'")
    pages: list[list[str | None]] = []
    page = None

    while page is not None or not pages:
        found = await find_timers(
            client.session,
            PENDING,
            TimerFilter("default", name_contains="x-"),
            size=2,
            page=page,
            limits=PageLimits(within_s=0.0),
        )
        pages.append([it.name for it in found.timers])
        page = found.next

    assert [name for names in pages for name in names] == ["A-X-27", "A-X-7"]
    assert pages[1:] == [[]] * (len(pages) - 1), "a page may be empty and yet not the last one"
    assert len(pages) == 6


async def test_a_timer_is_found_by_key_or_name_with_all_its_properties(client: HolderClient) -> None:
    key = await schedule(client, due_date=START, name="n", zone="Asia/Tokyo")
    await pause_timer(client.session, TimerRef(key))

    paused = await find_timer(client.session, TimerRef(key))

    assert paused
    assert paused == await find_timer(client.session, TimerRef(name="n"))
    assert (paused.state, paused.due_date, paused.zone, paused.missed) == (PAUSED, START, "Asia/Tokyo", None)
    assert (await find_timers(client.session, PAUSED, TimerFilter())).timers == [paused]
    assert await find_timer(client.session, TimerRef(name="n", tenant_id="other")) is None


# Pages


@pytest.mark.parametrize("wanted", [TimerFilter(), TimerFilter(tenant_id="default")], ids=["all", "tenant"])
@pytest.mark.parametrize("state", [PENDING, PAUSED])
async def test_pages_of_timers_with_one_due_date_have_each_timer_once(
    dsn: str, state: str, wanted: TimerFilter
) -> None:
    keys = await add_timers(dsn, 2_000, "'2031-01-01 00:00:00.123456+00'")
    async with session(dsn) as client:
        if state == PAUSED:
            await pause_timers(client, keys)

        for size in (999, 1_000):
            found = await all_pages(client, state, wanted, size=size)
            assert [timer.timer_key for timer in found] == keys


async def test_a_change_between_two_pages_changes_no_other_page(client: HolderClient) -> None:
    keys = await add_timers(client.dsn, 30, "now() + i * interval '1 hour'")
    # A timer of an earlier page, a timer of a later page, and a new one.
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

    found = await all_pages(client.session, PENDING, TimerFilter(), size=7, between=step)

    assert [timer.timer_key for timer in found] == [key for key in keys if key != keys[20]]


async def test_a_page_is_the_same_with_any_zone_and_style_of_dates_of_the_client(client: HolderClient) -> None:
    keys = await add_timers(client.dsn, 9, "'2031-01-01'::timestamptz + i * interval '1.000001 second'")
    page = None
    for number, style in enumerate(["ISO, DMY", "SQL, DMY", "German", "Postgres, MDY"] * 2):
        await client.value("select set_config('datestyle', $1, false)", style)
        await client.value("select set_config('timezone', $1, false)", ["Asia/Tokyo", "America/New_York"][number % 2])

        key, page = await client.value(
            "select row(f.timer_key, f.page) from shardclock.find_timers(page => $1, page_size => 1) f", page
        )

        assert key == keys[number]


NOT_A_PAGE = "is not from a search for {} timers"
BY_TENANT = "needs a tenant_id: the index of changes has one part for each tenant"
REFUSED: list[tuple[dict[str, str], str]] = [
    ({"state": "'ENDING'"}, "state 'ENDING' is unknown: use PENDING, PAUSED, TRIGGERED, CANCELED, SKIPPED or ENDED"),
    ({"state": "null"}, "state <NULL> is unknown: use PENDING, PAUSED, TRIGGERED, CANCELED, SKIPPED or ENDED"),
    ({"page_size": "0"}, "page_size 0 is refused: use 1 to 10000"),
    ({"page_size": "10001"}, "page_size 10001 is refused: use 1 to 10000"),
    ({"name_prefix": "'order'"}, "name_prefix 'order' needs a tenant_id: each tenant has its own names"),
    ({"page": "''"}, f"page '' {NOT_A_PAGE.format('PENDING')}"),
    ({"page": "'7/8'"}, f"page '7/8' {NOT_A_PAGE.format('PENDING')}"),
    ({"page": "'2031-01-01 00:00:00+00'"}, f"page '2031-01-01 00:00:00+00' {NOT_A_PAGE.format('PENDING')}"),
    (
        {"page": "'2031-01-01 00:00:00+00/1; drop'"},
        f"page '2031-01-01 00:00:00+00/1; drop' {NOT_A_PAGE.format('PENDING')}",
    ),
    (
        {"state": "'ENDED'", "page": "'2031-01-01 00:00:00+00/8'"},
        f"page '2031-01-01 00:00:00+00/8' {NOT_A_PAGE.format('ENDED')}",
    ),
    (
        {"order_by": "'change'", "tenant_id": "'a'", "page": "'2031-01-01 00:00:00+00/8'"},
        f"page '2031-01-01 00:00:00+00/8' {NOT_A_PAGE.format('PENDING')}",
    ),
    ({"order_by": "'name'"}, "order_by 'name' is refused: PENDING timers come by due or change"),
    ({"state": "'ENDED'", "order_by": "'due'"}, "order_by 'due' is refused: ENDED timers come by change"),
    ({"order_by": "'change'"}, f"order_by 'change' {BY_TENANT}"),
    ({"changed_before": "now()"}, f"changed_before {BY_TENANT}"),
    ({"state": "'PAUSED'", "page": "'7/8'"}, f"page '7/8' {NOT_A_PAGE.format('PAUSED')}"),
    ({"state": "'ENDED'", "page": f"'{10**19}/8'"}, f"page '{10**19}/8' {NOT_A_PAGE.format('ENDED')}"),
]


async def test_a_search_explains_what_it_refuses(client: HolderClient) -> None:
    for arguments, sentence in REFUSED:
        assert await refusal(client, "find_timers", **arguments) == sentence

    # A page token with an impossible date has the right form; Postgres refuses it.
    with pytest.raises(InvalidTimer, match=r"out of range: "):
        await find_timers(client.session, PENDING, TimerFilter(), page="2031-99-01 00:00:00+00/8")
    for state in ("ENDED", "ALL"):
        with pytest.raises(StatementRefused, match=f"state '{state}' is unknown here: use PENDING or PAUSED"):
            await find_keys(client.session, state, TimerFilter(), size=10)
    with pytest.raises(InvalidTimer, match="give only one of name, name_prefix and name_contains") as error:
        await find_timers(client.session, PENDING, TimerFilter("a", name_contains="b"), name="c")
    assert error.value.code is NEEDS_ONE_NAME
    with pytest.raises(InvalidTimer, match="give only one of"):
        await find_keys(client.session, PENDING, TimerFilter("a", name_contains="b", name_prefix="c"), size=10)
    with pytest.raises(InvalidTimer, match="name_contains 'b' needs a tenant_id: each tenant has its own names"):
        await find_timers(client.session, PENDING, TimerFilter(name_contains="b"))
    with pytest.raises(InvalidTimer, match="order_by 'due' can't be combined with name_contains: this search"):
        await find_timers(client.session, PENDING, TimerFilter("a", name_contains="b"), order_by="due")
    with pytest.raises(InvalidTimer, match="state 'ALL' is unknown"):
        await find_timers(client.session, "ALL", TimerFilter())


async def test_a_page_of_keys_with_a_negative_size_is_refused_in_a_sentence(dsn: str) -> None:
    with pytest.raises(asyncpg.InvalidParameterValueError, match="page_size -1 is refused: use 0 or more"):
        await query(dsn, "select shardclock.find_keys(page_size => -1)")
