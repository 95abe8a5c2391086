"""Prove that the records of ends and firings are found completely, by a bounded number of reads."""

from __future__ import annotations

from itertools import pairwise

import asyncpg
import pytest

from shardclock_server.sql.clients import search
from shardclock_server.sql.clients.firings import RECORDS_MAX, read_firings
from shardclock_server.sql.clients.refused import find_refused
from shardclock_server.sql.clients.search import PageLimits, TimerFilter, find_timers
from shardclock_server.sql.log.ends import find_ends, records_at, skim_ends
from shardclock_server.sql.session import EACH_TIME, Session
from shardclock_server.sql.statements import statement
from tests.support.factories import BOUND_S, HolderClient, add_schedule, add_timers, query
from tests.support.plans import counting_rows_read, prepare
from tests.support.sql_client import session

# Whether a record with this intent and policy is the end of a timer with this target.
CASES = {
    ("TRIGGERED", "log"): True,
    ("TRIGGERED", "process:instance"): True,
    ("TRIGGERED", "handler:h"): False,
    ("TRIGGERED", "webhook:w"): False,
    ("TRIGGERED", "job:j"): False,
    ("CANCELED", "handler:h"): True,
    ("SKIPPED", "log", "skip"): True,
    ("SKIPPED", "log", "fire_once"): False,
    ("SKIPPED", "handler:h", "fire_once"): False,
    ("DELIVERED", "handler:h"): True,
    ("DISCARDED", "handler:h"): True,
    ("DEAD", "handler:h"): True,
    ("RESCHEDULED", "log"): False,
    ("PAUSED", "log"): False,
    ("RESUMED", "log"): False,
    ("REDRIVEN", "handler:h"): False,
}


async def append(
    dsn: str, timer_key: int, intent: str, target: str, policy: str | None = None, *, payload: str = "1"
) -> None:
    await query(
        dsn,
        "insert into shardclock.command_log"
        " (timer_key, intent, target, payload, due_date, created_at, occurrence, tenant_id, timer_type, detail)"
        " values ($1, $2, $3, $4::jsonb, now(), now(), 1, 'default', 'USER', jsonb_build_object('policy', $5::text))",
        timer_key,
        intent,
        target,
        payload,
        policy,
    )


async def test_a_timers_end_is_the_same_by_its_key_and_in_the_log(dsn: str) -> None:
    for key, case in enumerate(CASES):
        await append(dsn, key, *case)
    ended = [key for key, is_end in enumerate(CASES.values()) if is_end]

    async with Session(dsn, application="test", timeout_s=BOUND_S) as reader:
        found = await find_ends(reader, range(len(CASES)))
        skimmed = await skim_ends(reader, 0, limit=len(CASES))
        first = await skim_ends(reader, 0, limit=3)

    assert sorted(found) == sorted(skimmed.ends)
    assert [end.timer_key for end in skimmed.ends] == ended
    assert (skimmed.records, first.records) == (len(CASES), 3)
    assert first.next < skimmed.next == max(end.position for end in skimmed.ends) + 4  # four more records, without ends


async def test_the_newest_of_two_ends_is_found_and_read_in_full(dsn: str) -> None:
    for intent in ("DEAD", "REDRIVEN", "DELIVERED"):
        await append(dsn, 7, intent, "handler:h", payload=f'"{intent}"')

    async with Session(dsn, application="test", timeout_s=BOUND_S) as reader:
        (record,) = await records_at(reader, await find_ends(reader, [7, 8]))

    assert (record.intent, record.payload) == ("DELIVERED", '"DELIVERED"')


READ = counting_rows_read("command_log%")
# Each firing has a record of its delivery's end, like a firing with a target.
RECORDS = """
    insert into shardclock.command_log (
        timer_key, due_date, created_at, occurrence, recorded_at, intent, tenant_id, timer_type, target, name, schedule,
        detail
    )
    select
        i, at, at - interval '1 hour', i, at + interval '3 seconds', r.intent, 'acme', 'USER', 'log', 'beat-' || n,
        'R/PT1H', r.detail
    from generate_series(1, 60) n
    cross join generate_series(1, 90) i
    cross join lateral (select now() - (100 - i) * interval '1 minute' as at) a
    cross join lateral (
        values ('TRIGGERED', case when i = 90 then jsonb_build_object('changed_at', at + interval '1 second') end),
            ('DELIVERED', null)
    ) as r (intent, detail)
    order by i
"""


async def test_the_firings_of_a_page_of_schedules_are_read_in_one_bounded_statement(dsn: str) -> None:
    await query(dsn, RECORDS)
    await query(dsn, "vacuum analyze")
    names = [f"beat-{n}" for n in range(1, 51)]
    values = {"tenant_id": "acme", "names": names, "firings_max": 30, "records_max": RECORDS_MAX}
    connection = await asyncpg.connect(dsn)
    try:
        async with connection.transaction():
            await connection.execute("set local enable_seqscan = off")
            rows = await connection.fetch(*statement("read_firings").with_values(values))
            read = await connection.fetchval(READ)
    finally:
        await connection.close()

    assert len(rows) == 50 * 30
    # If the test runs soon after midnight, the records are in two partitions. A merge of both reads one row more.
    assert read <= 50 * (RECORDS_MAX + 1)
    assert [(row["name"], row["occurrence"]) for row in rows[29:31]] == [("beat-1", 61), ("beat-2", 90)]
    assert [row["late_s"] for row in rows[:2]] == [pytest.approx(2.0), pytest.approx(3.0)]


async def test_skipped_occurrences_are_counted_and_other_tenants_are_not_read(shard: HolderClient) -> None:
    ago = {"anchor": "now() - interval '9 hours'", "repetitions": "9"}
    for tenant in ("acme", "umbrella"):
        await add_schedule(
            shard.dsn, "R9/PT1H", "now() - interval '8 hours'", missed="'skip'", tenant_id=f"'{tenant}'", **ago
        )
    await shard.fire((await shard.take(scope="sweep")).claimed)

    found = await read_firings(shard.session, "acme", ["beat", "nobody"])

    assert list(found) == ["beat"]
    assert [(it.intent, it.late_s, it.skipped) for it in found["beat"]] == [("SKIPPED", None, 8)]
    assert await read_firings(shard.session, "nobody", ["beat"]) == {}


QUIET, BUSY = TimerFilter(tenant_id="quiet"), TimerFilter(tenant_id="busy")
ENDED = "ENDED"


async def end(dsn: str, tenant: str, count: int) -> list[int]:
    """End a tenant's timers, one record after the other; return their keys, newest first."""
    keys = await add_timers(dsn, count, "now() + interval '1 hour'", tenant_id=f"'{tenant}'")
    await query(dsn, "select shardclock.cancel_timers($1)", keys)
    return keys[::-1]


async def pages_of(client: Session, wanted: TimerFilter, *, size: int) -> list[list[int]]:
    pages: list[list[int]] = []
    after: list[str | None] = [None]
    while len(after) == 1 or after[-1] is not None:
        page = await find_timers(client, ENDED, wanted, size=size, page=after[-1], limits=PageLimits(within_s=0.0))
        pages.append([timer.timer_key for timer in page.timers])
        after.append(page.next)
    places = [int(it) for it in after if it is not None]
    assert all(next_ < one for one, next_ in pairwise(places)), "each page leads further back"
    return pages


@pytest.fixture
async def quiet(dsn: str, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return the ended timers of a quiet tenant, newest first, among many other records; a step reads ten records."""
    monkeypatch.setattr(search, "STEP_LEAST", 10)
    monkeypatch.setattr(search, "STEP_MOST", 10)
    first = await end(dsn, "quiet", 3)
    await end(dsn, "busy", 95)
    middle = await end(dsn, "quiet", 1)
    await end(dsn, "busy", 50)
    return [*middle, *first]


@pytest.mark.parametrize("size", [1, 2, 100])
async def test_all_timers_are_on_the_pages_even_if_pages_end_early(dsn: str, quiet: list[int], size: int) -> None:
    async with session(dsn) as client:
        pages = await pages_of(client, QUIET, size=size)

    assert [key for page in pages for key in page] == quiet
    assert [] in pages, "a page may be empty and yet not the last one"
    assert max(map(len, pages)) <= size


async def test_without_a_time_limit_one_page_has_all_timers(dsn: str, quiet: list[int]) -> None:
    async with session(dsn) as client:
        page = await find_timers(client, ENDED, QUIET)
        of_unknown = await find_timers(client, ENDED, TimerFilter(tenant_id="nobody"))

    assert [timer.timer_key for timer in page.timers] == quiet
    assert (page.next, of_unknown.timers, of_unknown.next) == (None, [], None)


async def test_a_page_is_full_with_any_time_limit_if_one_step_finds_enough(dsn: str, quiet: list[int]) -> None:
    async with session(dsn) as client:
        page = await find_timers(client, ENDED, BUSY, size=7, limits=PageLimits(within_s=0.0))

    assert len(page.timers) == 7


async def test_timers_that_end_during_a_search_are_on_no_later_page(dsn: str, quiet: list[int]) -> None:
    async with session(dsn) as client:
        first = await find_timers(client, ENDED, QUIET, size=1)
        await end(dsn, "quiet", 2)
        rest = await find_timers(client, ENDED, QUIET, page=first.next)

    assert [timer.timer_key for timer in [*first.timers, *rest.timers]] == quiet


async def test_steps_grow_while_they_are_quick_and_shrink_when_they_are_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    now_s = 0.0

    async def take(step_s: float) -> None:
        nonlocal now_s
        now_s += step_s

    monkeypatch.setattr("shardclock_server.sql.clients.search.time.monotonic", lambda: now_s)
    steps = search.SectionSteps()
    lengths = [steps.length]
    for step_s in (0.05, 0.05, 0.2, 0.2, 0.2):
        await steps.timed(take(step_s))
        lengths.append(steps.length)

    least = search.STEP_LEAST
    assert lengths == [least, 2 * least, 4 * least, 2 * least, least, least]


REFUSE = """
    update shardclock.command_log set detail = '{"refused": "it never occurs"}'
    where intent = 'PAUSED' and name = any ($1)
"""


async def test_only_timers_that_a_shard_has_paused_are_found_in_descending_order_of_the_pause(each_dsn: str) -> None:
    for name in ("one", "two", "by-hand", "mended"):
        await add_timers(each_dsn, 1, "now() + interval '1 hour'", name=f"'{name}'")
        await query(each_dsn, "select shardclock.pause_timer(name => $1)", name)
    await query(each_dsn, REFUSE, ["one", "two", "mended"])
    await query(each_dsn, "select shardclock.resume_timer(name => 'mended')")
    await query(each_dsn, "select shardclock.pause_timer(name => 'mended')")

    async with session(each_dsn, "reader") as reader:
        found = await find_refused(reader, "default", with_jobs=False, limit=10)
        first = await find_refused(reader, "default", with_jobs=False, limit=1)
        others = await find_refused(reader, "acme", with_jobs=True, limit=10)

    assert [(it.name, it.reason) for it in found] == [("two", "it never occurs"), ("one", "it never occurs")]
    assert (first, others) == (found[:1], [])


async def test_only_operators_find_timers_of_jobs(each_dsn: str) -> None:
    await add_timers(each_dsn, 1, "now() + interval '1 hour'", name="'beat'")
    await query(each_dsn, "select shardclock.pause_timer(name => 'beat')")
    await query(each_dsn, REFUSE, ["beat"])
    await query(each_dsn, "alter table shardclock.timers disable trigger all")
    await query(each_dsn, "update shardclock.timers set target = 'job:beat'")

    async with session(each_dsn, "reader") as reader:
        assert await find_refused(reader, "default", with_jobs=False, limit=10) == []
        assert [it.target for it in await find_refused(reader, "default", with_jobs=True, limit=10)] == ["job:beat"]


async def test_the_search_reads_no_more_timers_than_its_limit(each_dsn: str) -> None:
    await add_timers(each_dsn, 5_000, "now() + interval '1 day'", changed_at="now() - i * interval '1 s'")
    await add_timers(each_dsn, 20, "now() + interval '1 hour'", name="'beat-' || i")
    await query(
        each_dsn,
        "select shardclock.pause_timers(array(select timer_key from shardclock.timers where name like 'beat%'))",
    )
    await query(each_dsn, "vacuum analyze")
    find = await prepare(each_dsn, "find_refused", **EACH_TIME)

    reading = await find.explain("'default'", "true", "500", "100", touched=True, table="timers")

    assert reading.rows <= 510
    assert reading.indexes == {"timers_by_change"}
    await find.connection.close()
