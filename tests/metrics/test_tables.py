"""Prove that an exporter serves what the tables say, and says so when it can't read them."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Any

import pytest

from shardclock_server.cluster.families import REPORTED
from shardclock_server.metrics.exporter import Exporter, ExporterConfig
from shardclock_server.metrics.families import TABLE
from shardclock_server.metrics.family import OTHER
from shardclock_server.metrics.reading import Reading
from shardclock_server.metrics.report import Report, Sample
from shardclock_server.metrics.tables import read_tables
from shardclock_server.sql.claims.scan_window import ScanWindow
from shardclock_server.sql.dsn import Dsn
from shardclock_server.sql.scripts import steps
from shardclock_server.timers.model import SLOTS
from tests.support.cli_asserts import DOWN, SECRET
from tests.support.deliveries import HANDLER, add_deliveries, bury, declare
from tests.support.exporting import Exporting, exporting, get, short_dir
from tests.support.factories import add_timers, query

FIRED = Report("a", "3", [Sample("timers_fired", (), 5)])
# Tables that are not measured, since each costs three series: who changes them, and how many rows they have.
UNMEASURED = {
    "api_keys": "people make keys; a use of one writes nothing",
    "functions": "a row for each function, written by `shardclock migrate`",
    "handlers": "a row for each handler, written when an app declares another one",
    "identity": "one row, written when a database moves",
    "log_days": "a row for each day of the log that is kept",
    "migrations": "a row for each step of the schema",
    "scale": "a row for each role of keepers, written when somebody or the forecast wants another number",
    "tenant_usage": "a row for each resource of a tenant with a large quota, written every ten seconds at most",
    "tenants": "people set limits, of one row each",
}


@pytest.fixture
def reads(dsn: str) -> Iterator[Exporting]:
    """Run an exporter that reads a migrated, empty database."""
    with exporting(dsn) as one:
        yield one


def test_what_the_tables_say_is_on_the_page(dsn: str, reads: Exporting) -> None:
    asyncio.run(add_timers(dsn, 3, "now() - interval '2 seconds'"))
    asyncio.run(add_timers(dsn, 4, "now() + interval '90 seconds'"))

    page = reads.get()

    assert page.number("store_up") == 1
    assert page.number("pending_timers") == 7
    assert page.number("overdue_timers") == 3
    assert page.numbers("overdue_timers_by_age") == {
        ("under_1s",): 0, ("under_10s",): 3, ("under_1m",): 0, ("under_10m",): 0, ("over_10m",): 0,
    }  # fmt: skip
    assert 2 <= (page.number("oldest_overdue_seconds") or 0) < 60
    assert page.numbers("forecast_timers") == {(f"{n:02}",): 4 if n == 2 else 0 for n in range(1, 16)}
    assert page.number("forecast_peak_timers_per_second") == pytest.approx(0.4)
    assert page.number("shards_min") is None, "there is no policy"
    assert page.numbers("table_rows").keys() == {(table,) for table in TABLE.values}
    assert page.number("schema_version") == steps()[-1].version
    assert [reads.get(path).status for path in ("/healthz", "/readyz")] == [200, 200]


def test_scrapes_at_the_same_time_and_soon_after_share_one_reading(
    reads: Exporting, monkeypatch: pytest.MonkeyPatch
) -> None:
    readings = []

    async def counted(session: Any, window: Any) -> Any:
        readings.append(window)
        return await read_tables(session, window)

    monkeypatch.setattr("shardclock_server.metrics.reading.read_tables", counted)

    with ThreadPoolExecutor(8) as clients:
        pages = list(clients.map(lambda _: reads.get(), range(8)))
    pages += [reads.get(), reads.get()]

    assert {page.number("store_up") for page in pages} == {1}
    assert len(readings) == 1


def test_without_postgres_it_says_so_and_stays_healthy() -> None:
    with exporting(DOWN) as one:
        one.tell(FIRED)
        page, ready = one.get(), one.get("/readyz")

        assert page.number("store_up") == 0
        assert page.number("pending_timers") is None, "what is not known is not said"
        assert page.numbers("timers_fired_total") == {("3",): 5}
        assert one.get("/healthz").status == 200
        assert ready.status == 503
        assert len(ready.text.splitlines()) == 1
        assert "refused" in ready.text or "Connect call failed" in ready.text
        assert SECRET not in ready.text


def test_when_postgres_comes_back_it_is_ready_again(dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shardclock_server.metrics.reading.FRESH_S", 0.0)
    answers = iter([OSError("gone")])

    async def away_once(session: Any, window: Any) -> Any:
        for error in answers:
            raise TimeoutError from error
        return await read_tables(session, window)

    monkeypatch.setattr("shardclock_server.metrics.reading.read_tables", away_once)
    with exporting(dsn) as one:
        assert (one.get("/readyz").status, one.get("/readyz").status) == (503, 200)
        assert one.get().number("store_up") == 1


@pytest.fixture
async def reading(dsn: str, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Reading]:
    """Give a reader that reads whenever it is asked."""
    monkeypatch.setattr("shardclock_server.metrics.reading.FRESH_S", 0.0)
    one = Reading(dsn)
    yield one
    await one.close()


async def overdue(reading: Reading) -> tuple[int, float]:
    """Read how many timers are overdue, and for how long the oldest is."""
    tables = await reading.fresh()
    assert tables is not None
    return sum(tables.overdue.timers), tables.cluster.oldest_overdue_s


async def test_a_backlog_stays_in_sight_and_what_is_scheduled_long_overdue_comes_into_it(
    dsn: str, reading: Reading
) -> None:
    """Readings don't go past all that has fired each time, but past none that is overdue."""
    await add_timers(dsn, 50, "now() - interval '1 hour'")
    found = [await overdue(reading) for _ in range(3)]
    await query(dsn, "delete from shardclock.timers")
    found += [await overdue(reading) for _ in range(3)]
    await add_timers(dsn, SLOTS, "now() - interval '2 hours'")
    found += [await overdue(reading) for _ in range(2)]

    assert [timers for timers, _ in found[:6]] == [50, 50, 50, 0, 0, 0]
    (some, some_oldest_s), (all_of_them, oldest_s) = found[6:]
    assert 0 < some < all_of_them == SLOTS, "one in each slot: the next few slots' at first"
    assert min(some_oldest_s, oldest_s) > 7_200


async def test_a_slow_reading_is_followed_by_one_that_reads_fewer_slots_in_full(
    reading: Reading, monkeypatch: pytest.MonkeyPatch
) -> None:
    reading._looks.long_s = -1.0  # any takes longer
    windows: list[ScanWindow | None] = []

    async def stuck(session: Any, window: ScanWindow | None) -> Any:
        windows.append(window)
        raise TimeoutError

    monkeypatch.setattr("shardclock_server.metrics.reading.read_tables", stuck)
    assert [await reading.fresh() for _ in range(2)] == [None, None]

    first, second = windows
    assert first is None
    assert second is not None
    assert second.full_count < SLOTS / 2


def test_a_schema_that_is_too_old_makes_it_unready_and_names_the_way_out(dsn: str, reads: Exporting) -> None:
    last = steps()[-1].version
    asyncio.run(query(dsn, "delete from shardclock.migrations where version = $1", last))

    ready = reads.get("/readyz")

    assert (ready.status, reads.get().number("store_up")) == (503, 0)
    assert f"version {last - 1}, this program needs {last}: run `shardclock migrate`" in ready.text


def test_a_database_that_is_not_there_makes_it_unready(dsn: str) -> None:
    with exporting(dsn.replace("/t_", "/no_", 1)) as one:
        ready = one.get("/readyz")

        assert ready.status == 503
        assert "does not exist" in ready.text


def test_what_others_lack_makes_it_unready_too(dsn: str) -> None:
    lacks = ["Ray has not started"]
    with short_dir() as place:
        exporter = Exporter(
            ExporterConfig("127.0.0.1", 0, place / "e.sock", REPORTED, Dsn(DOWN)), unready=lambda: lacks
        )
        with closing(exporter):
            exporter.start()
            assert exporter.address is not None
            first = get(exporter.address, "/readyz").text.splitlines()
            lacks.clear()
            second = get(exporter.address, "/readyz").text.splitlines()

    assert first[0] == "Ray has not started"
    assert first[1:] == second
    assert len(second) == 1


def test_what_waits_for_a_target_and_its_dead_letters_are_on_the_page(dsn: str, reads: Exporting) -> None:
    asyncio.run(declare(dsn, HANDLER))
    asyncio.run(add_deliveries(dsn, 3, next_attempt_at="now() - interval '1 hour'"))
    asyncio.run(add_deliveries(dsn, 2, "webhook:shop"))
    asyncio.run(bury(dsn, 4))

    page = reads.get()

    assert page.numbers("deliveries_waiting") == {(HANDLER,): 3, (OTHER,): 2}
    assert page.numbers("dead_letters") == {(HANDLER,): 4, (OTHER,): 0}
    assert 3_600 <= page.numbers("oldest_waiting_delivery_seconds")[HANDLER,] < 3_660
    assert (page.number("workers_wanted"), page.number("workers_alive")) == (2, 0)


def test_deliveries_that_cannot_be_read_cost_no_other_figure(dsn: str, reads: Exporting) -> None:
    asyncio.run(add_timers(dsn, 3, "now() + interval '1 hour'"))
    asyncio.run(query(dsn, "alter table shardclock.deliveries rename tenant_id to tenant"))

    page = reads.get()

    assert page.number("pending_timers") == 3
    assert page.numbers("deliveries_waiting") == {}
    assert page.numbers("dead_letters") == {(OTHER,): 0}


def test_groups_that_cannot_be_listed_cost_no_other_figure(dsn: str, reads: Exporting) -> None:
    asyncio.run(add_timers(dsn, 3, "now() + interval '1 hour'"))
    asyncio.run(query(dsn, "drop table shardclock.records_aside"))

    page = reads.get()

    assert page.number("store_up") == 1
    assert page.number("pending_timers") == 3
    assert page.numbers("consumer_lag_records") == {}
    assert page.numbers("table_rows")


def test_readings_that_are_refused_are_counted_and_cost_no_other_figure(
    dsn: str, reads: Exporting, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shardclock_server.metrics.reading.FRESH_S", 0.0)
    whole = reads.get()
    asyncio.run(query(dsn, "revoke select on shardclock.incidents, shardclock.records_aside from shardclock_reader"))

    page = reads.get()

    assert (whole.number("store_readings_missing"), whole.number("incidents_open")) == (0, 0)
    assert (page.number("store_up"), page.number("store_readings_missing")) == (1, 2)
    assert page.number("incidents_open") is None
    assert page.number("pending_timers") == 0
    asyncio.run(query(dsn, "grant select on shardclock.incidents, shardclock.records_aside to shardclock_reader"))
    assert reads.get().number("store_readings_missing") == 0


def test_without_postgres_nothing_is_said_of_single_readings() -> None:
    with exporting(DOWN) as one:
        assert one.get().number("store_readings_missing") is None


def test_each_table_of_the_schema_is_measured_or_has_a_reason_why_not() -> None:
    steps_text = "".join(step.text for step in steps())
    made = set(re.findall(r"^create table shardclock\.(\w+) \($", steps_text, re.MULTILINE))
    assert made | {"migrations", "functions"} == TABLE.values | UNMEASURED.keys()
    assert TABLE.values & UNMEASURED.keys() == set()
