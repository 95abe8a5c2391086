"""Test the pages on a large database: the size of a first load, the blocks that a page reads, and the counts."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator

import asyncpg
import pytest
from asyncpg.connection import LoggedQuery

from shardclock_server.gateway.console import caching
from shardclock_server.gateway.routes.bulk import COUNTED_MAX
from shardclock_server.sql.session import CLIENT_PLANS
from tests.support.console import Browser, browsing
from tests.support.factories import query, value
from tests.support.filled_console import DEAD_LETTERS, PENDING, VERSIONS, fill_console
from tests.support.gateways import serving
from tests.support.postgres import Server

pytestmark = pytest.mark.exhaustive

FIRST_LOAD_BYTES = 40 * 1_024  # as served, compressed, with style and scripts
# The number of 8 KiB pages that a query may read, all in Postgres's memory. 50,000 pages take about 60 ms.
BLOCKS_MAX = 50_000
MOVED = 20  # the number of timers that may become due, or enter the next 30 minutes, while the test runs
READS = re.compile(r"(\s|--[^\n]*\n)*(with|select)\b")
PATHS = (
    "", "/timers", "/timers?state=paused", "/timers?state=triggered", "/timers?state=canceled",
    "/timers?name_prefix=order-1", "/timers?name_contains=order-2999", "/timers?name_contains=nothing",
    "/timers?target=target.10", "/timers?order_by=change", "/timers?only_schedules=true",
    "/timers?due_from=2100-01-31T08:00:00Z", "/schedules", "/timers/by-name/schedule-17", "/timers/new", "/deliveries",
    "/deliveries?target=webhook:endpoint-7", "/deliveries/20000007", "/deliveries/retry", "/dead-letters",
    "/dead-letters?target=webhook:endpoint-7", "/dead-letters/10000007", "/dead-letters/redrive",
    "/dead-letters/discard", "/endpoints", "/endpoints/endpoint-7", "/endpoints/endpoint-7/attempts", "/jobs",
    "/jobs/job-7", "/jobs/job-7/runs/60000006.1", "/tasks", "/operations", "/operations/7", "/audit",
    "/audit?actor=ann", "/audit?verb=endpoints", "/log", "/log?name=schedule-17", "/log?process_instance_key=77",
    "/log?event=PAUSED", "/processes", "/processes/40000007", "/instances", "/instances?state=running",
    "/instances?state=incident", "/instances?state=completed", "/instances?state=canceled",
    "/instances?business_key=order-50000008", "/instances/101", "/instances/50000002", "/cluster", "/tenants", "/keys",
    "/account",
)  # fmt: skip


@pytest.fixture(scope="module")
def full(postgres: Callable[[int], Server]) -> Iterator[str]:
    """Return the DSN of a database with a million timers; tests must not change the database."""
    with postgres(18).database(fill_console) as dsn:
        yield dsn


async def first_load(browser: Browser, path: str) -> int:
    """Add up the compressed bytes of a page and its files."""
    shown = await browser.get(path, Accept_Encoding="gzip")
    assert shown.status == 200, path
    files = [await browser.get(it, Accept_Encoding="gzip") for it in re.findall(r'"/console(/static/\S+)"', shown.text)]
    assert len(files) == 3
    return sum(int(it.headers["Content-Length"]) for it in (shown, *files))


async def blocks_of(connection: asyncpg.Connection, sent: list[LoggedQuery]) -> int:
    """Run each select statement again, and add up the blocks that the statements read."""
    blocks = 0
    for it in sent:
        if READS.match(it.query):
            explained = f"explain (analyze, buffers, timing off, format json) {it.query}"
            plan = json.loads(await connection.fetchval(explained, *it.args))[0]["Plan"]
            blocks += plan["Shared Hit Blocks"] + plan["Shared Read Blocks"]
    return blocks


async def test_each_page_is_small_and_reads_few_blocks(
    full: str, statements: list[LoggedQuery], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(caching, "FRESH_S", -1.0)
    too_large, too_many = {}, {}
    connection = await asyncpg.connect(full, server_settings=dict(CLIENT_PLANS))
    try:
        async with serving(full) as api, browsing(api) as browser:
            for path in PATHS:
                statements.clear()
                if (size := await first_load(browser, path)) > FIRST_LOAD_BYTES:
                    too_large[path] = size
                if (blocks := await blocks_of(connection, statements[:])) > BLOCKS_MAX:
                    too_many[path] = blocks
    finally:
        await connection.close()

    assert (too_large, too_many) == ({}, {})


async def test_a_search_within_names_reads_a_bounded_part_and_links_to_the_next_part(
    full: str, statements: list[LoggedQuery], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shardclock_server.gateway.console.pages.timers.SEARCH_S", -1.0)
    last = "select max(name) from shardclock.timers where schedule is not null and paused_due_date is null"
    name = await value(full, last)
    async with serving(full) as api, browsing(api) as browser:
        shown = await browser.get(f"/timers?name_contains={name.upper()}")
        searches = [it for it in statements if "names_max" in it.query or "named as" in it.query]
        assert (len(searches), "No timer matches in the part that was searched" in shown.main) == (1, True)

        found, clicks = shown, 0
        while f"{name} PENDING" not in found.main:
            (lead,) = re.findall(r'href="/console(/timers\?[^"]*after=[^"]*)">Search on', found.text)
            found, clicks = await browser.get(lead.replace("&amp;", "&")), clicks + 1

    assert clicks > 1


async def test_each_count_is_the_count_of_postgres(full: str) -> None:
    async with serving(full) as api, browsing(api) as browser:
        overview = (await browser.get("")).main
        letters = (await browser.get("/dead-letters")).main
        of_one = (await browser.get("/dead-letters?target=webhook:endpoint-7")).main
        redrive = (await browser.get("/dead-letters/redrive")).main
        discard = (await browser.get("/dead-letters/discard?target=webhook:endpoint-7")).main
        endpoint = (await browser.get("/endpoints/endpoint-7")).main
        processes = (await browser.get("/processes")).main
        counted = await browser.submit("/timers/bulk/pause?dry_run=true", {"only_schedules": "true"})
        everything = await browser.submit("/timers/bulk/pause?dry_run=true", {"state": "pending"})

    soon = "now() + interval '30 minutes'"
    due = await value(full, f"select count(*) from shardclock.timers where due_date between now() and {soon}")
    pending = await value(full, "select count(*) from shardclock.timers")
    paused = await value(full, "select count(*) from shardclock.timers where paused_due_date is not null")
    assert pending == PENDING
    assert f"{pending:,} pending, {paused:,} of them paused" in overview
    overdue = re.findall(r"([\d,]+) overdue", overview)[0]
    late = "select count(*) from shardclock.timers where due_date < now()"
    assert abs(int(overdue.replace(",", "")) - await value(full, late)) <= MOVED, "the clock went on"
    assert "webhook:endpoint-7 1,000 or more" in overview
    of_targets = re.findall(r"(?:log|target\.\d+|others) ([\d,]+)", overview.partition("Target Timers")[2])
    shown = [int(it.replace(",", "")) for it in of_targets]
    assert abs(sum(shown) - due) <= MOVED, "the clock went on"
    assert f"{DEAD_LETTERS:,} dead letters would be put back" in redrive
    text = "select count(*) from shardclock.dead_letters where target = 'webhook:endpoint-7'"
    number = await value(full, text)
    assert f"{number:,} dead letters would be discarded" in discard
    (group,) = await query(full, f"{text} and reason like 'HTTP 502: the answer of call 7' || chr(10) || '%'")
    assert f"{group[0]:,} webhook:endpoint-7" in of_one
    assert "newest 10,000" in letters
    on_the_way = await value(full, "select count(*) from shardclock.deliveries where target = 'webhook:endpoint-7'")
    assert f"Pending deliveries {on_the_way:,} Failing 100 or more" in endpoint
    text = "select count(*) from shardclock.instances where ended_at is null and definition_key = $1"
    running = await value(full, text, 40_000_000 + VERSIONS)
    assert running > 0
    assert f"p p {VERSIONS} {running:,} model.bpmn" in processes
    schedules = "select count(*) from shardclock.timers where schedule is not null and paused_due_date is null"
    assert f"{await value(full, schedules):,} pending timers match" in counted.main
    assert f"{COUNTED_MAX:,} or more pending timers match" in everything.main


async def test_the_count_of_a_bulk_change_reads_few_blocks(full: str, statements: list[LoggedQuery]) -> None:
    connection = await asyncpg.connect(full, server_settings=dict(CLIENT_PLANS))
    filters: tuple[dict[str, str], ...] = (
        {}, {"target": "log"}, {"target": "target.10"}, {"name_prefix": "order-"}, {"due_from": "2020-01-01T00:00:00Z"},
        {"due_before": "2020-01-01T00:00:00Z"}, {"only_schedules": "true"}, {"changed_from": "2020-01-01T00:00:00Z"},
    )  # fmt: skip
    blocks = dict[str, int]()
    try:
        async with serving(full) as api, browsing(api) as browser:
            for verb in ("cancel", "resume"):
                for chosen in filters:
                    statements.clear()
                    shown = await browser.submit(f"/timers/bulk/{verb}?dry_run=true", chosen)
                    assert shown.status == 200
                    blocks[f"{verb} {chosen}"] = await blocks_of(connection, statements[:])
    finally:
        await connection.close()

    assert {chosen: read for chosen, read in blocks.items() if read > BLOCKS_MAX} == {}
