"""Test that an exporter serves the figures of the tables, and reports tables that it can't read."""

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
from shardclock_server.metrics.report import MetricsReport, Sample
from shardclock_server.metrics.table_reader import TableReader
from shardclock_server.metrics.tables import read_tables
from shardclock_server.sql.claims.scan_window import ScanWindow
from shardclock_server.sql.dsn import Dsn
from shardclock_server.sql.scripts import steps
from shardclock_server.timers.model import SLOTS
from tests.support.cli_asserts import DOWN, SECRET
from tests.support.deliveries import HANDLER, add_deliveries, bury, declare
from tests.support.exporting import Exporting, exporting, get, short_dir
from tests.support.factories import add_timers, query, sql

FIRED = MetricsReport("a", "3", [Sample("timers_fired", (), 5)])
# These tables have few rows or few changes, so they have no metrics: the metrics of a table cost three series.
UNMEASURED = {
    "api_keys": "people make keys; a use of one writes nothing",
    "console_sessions": "people sign in; a use of a session writes nothing",
    "event_subscriptions": "people subscribe endpoints to events",
    "event_throttles": "a row for each subject with an event in the last minutes",
    "functions": "a row for each function, written by `shardclock migrate`",
    "handlers": "a row for each handler, written when an app declares another one",
    "identity": "one row, written when a database moves",
    "log_days": "a row for each day of the log that is kept",
    "operation_pages": "a row for each thousand rows that a bulk change has still to change",
    "operator_events": "rare rows that the coordinator takes within a second",
    "operations": "a row for each bulk change by an operator",
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


def test_the_figures_of_the_tables_are_on_the_page(dsn: str, reads: Exporting) -> None:
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


def test_concurrent_scrapes_and_scrapes_soon_after_share_one_reading(
    reads: Exporting, monkeypatch: pytest.MonkeyPatch
) -> None:
    readings = []

    async def counted(session: Any, window: Any) -> Any:
        readings.append(window)
        return await read_tables(session, window)

    monkeypatch.setattr("shardclock_server.metrics.table_reader.read_tables", counted)

    with ThreadPoolExecutor(8) as clients:
        pages = list(clients.map(lambda _: reads.get(), range(8)))
    pages += [reads.get(), reads.get()]

    assert {page.number("store_up") for page in pages} == {1}
    assert len(readings) == 1


def test_an_exporter_without_postgres_reports_the_outage_and_remains_healthy() -> None:
    with exporting(DOWN) as one:
        one.tell(FIRED)
        page, ready = one.get(), one.get("/readyz")

        assert page.number("store_up") == 0
        assert page.number("pending_timers") is None, "unknown values are left out"
        assert page.numbers("timers_fired_total") == {("3",): 5}
        assert one.get("/healthz").status == 200
        assert ready.status == 503
        assert len(ready.text.splitlines()) == 1
        assert "refused" in ready.text or "Connect call failed" in ready.text
        assert SECRET not in ready.text


def test_an_exporter_is_ready_again_when_postgres_returns(dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shardclock_server.metrics.table_reader.FRESH_S", 0.0)
    answers = iter([OSError("gone")])

    async def away_once(session: Any, window: Any) -> Any:
        for error in answers:
            raise TimeoutError from error
        return await read_tables(session, window)

    monkeypatch.setattr("shardclock_server.metrics.table_reader.read_tables", away_once)
    with exporting(dsn) as one:
        assert (one.get("/readyz").status, one.get("/readyz").status) == (503, 200)
        assert one.get().number("store_up") == 1


@pytest.fixture
async def reader(dsn: str, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[TableReader]:
    monkeypatch.setattr("shardclock_server.metrics.table_reader.FRESH_S", 0.0)
    one = TableReader(dsn)
    yield one
    await one.close()


async def overdue(reader: TableReader) -> tuple[int, float]:
    tables = await reader.fresh()
    assert tables is not None
    return sum(tables.overdue.timers), tables.cluster.oldest_overdue_s


async def test_each_reading_finds_a_backlog_and_new_timers_that_are_long_overdue(dsn: str, reader: TableReader) -> None:
    """Test that the scan window skips the index entries of fired timers, but skips no overdue timer."""
    await add_timers(dsn, 50, "now() - interval '1 hour'")
    found = [await overdue(reader) for _ in range(3)]
    await query(dsn, "delete from shardclock.timers")
    found += [await overdue(reader) for _ in range(3)]
    await add_timers(dsn, SLOTS, "now() - interval '2 hours'")
    found += [await overdue(reader) for _ in range(2)]

    assert [timers for timers, _ in found[:6]] == [50, 50, 50, 0, 0, 0]
    (some, some_oldest_s), (all_of_them, oldest_s) = found[6:]
    assert 0 < some < all_of_them == SLOTS, "one in each slot: the next few slots' at first"
    assert min(some_oldest_s, oldest_s) > 7_200


async def test_the_reading_after_a_slow_one_reads_fewer_slots_in_full(
    reader: TableReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader._scan.long_s = -1.0  # each reading of the tables takes longer than this
    windows: list[ScanWindow | None] = []

    async def stuck(session: Any, window: ScanWindow | None) -> Any:
        windows.append(window)
        raise TimeoutError

    monkeypatch.setattr("shardclock_server.metrics.table_reader.read_tables", stuck)
    assert [await reader.fresh() for _ in range(2)] == [None, None]

    first, second = windows
    assert first is None
    assert second is not None
    assert second.full_count < SLOTS / 2


def test_an_exporter_is_unready_with_an_old_schema_and_names_the_way_out(dsn: str, reads: Exporting) -> None:
    last = steps()[-1].version
    sql(dsn, "delete from shardclock.migrations where version = $1", last)

    ready = reads.get("/readyz")

    assert (ready.status, reads.get().number("store_up")) == (503, 0)
    assert f"version {last - 1}, this program needs {last}: run `shardclock migrate`" in ready.text


def test_an_exporter_is_unready_without_its_database(dsn: str) -> None:
    with exporting(dsn.replace("/t_", "/no_", 1)) as one:
        ready = one.get("/readyz")

        assert ready.status == 503
        assert "does not exist" in ready.text


def test_an_exporter_is_not_ready_while_one_of_its_parts_is_not_ready(dsn: str) -> None:
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


def test_waiting_deliveries_and_dead_letters_of_a_target_are_on_the_page(dsn: str, reads: Exporting) -> None:
    asyncio.run(declare(dsn, HANDLER))
    asyncio.run(add_deliveries(dsn, 3, next_attempt_at="now() - interval '1 hour'"))
    asyncio.run(add_deliveries(dsn, 2, "webhook:shop"))
    asyncio.run(bury(dsn, 4))

    page = reads.get()

    assert page.numbers("deliveries_waiting") == {(HANDLER,): 3, (OTHER,): 2}
    assert page.numbers("dead_letters") == {(HANDLER,): 4, (OTHER,): 0}
    assert 3_600 <= page.numbers("oldest_waiting_delivery_seconds")[HANDLER,] < 3_660
    assert (page.number("workers_wanted"), page.number("workers_alive")) == (2, 0)


def test_a_failed_reading_of_deliveries_affects_no_other_figure(dsn: str, reads: Exporting) -> None:
    asyncio.run(add_timers(dsn, 3, "now() + interval '1 hour'"))
    sql(dsn, "alter table shardclock.deliveries rename tenant_id to tenant")

    page = reads.get()

    assert page.number("pending_timers") == 3
    assert page.numbers("deliveries_waiting") == {}
    assert page.numbers("dead_letters") == {(OTHER,): 0}


def test_a_failed_reading_of_groups_affects_no_other_figure(dsn: str, reads: Exporting) -> None:
    asyncio.run(add_timers(dsn, 3, "now() + interval '1 hour'"))
    sql(dsn, "drop table shardclock.records_aside")

    page = reads.get()

    assert page.number("store_up") == 1
    assert page.number("pending_timers") == 3
    assert page.numbers("consumer_lag_records") == {}
    assert page.numbers("table_rows")


def test_failed_readings_are_counted_and_affect_no_other_figure(
    dsn: str, reads: Exporting, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shardclock_server.metrics.table_reader.FRESH_S", 0.0)
    whole = reads.get()
    sql(dsn, "revoke select on shardclock.incidents, shardclock.records_aside from shardclock_reader")

    page = reads.get()

    assert (whole.number("store_readings_missing"), whole.number("incidents_open")) == (0, 0)
    assert (page.number("store_up"), page.number("store_readings_missing")) == (1, 2)
    assert page.number("incidents_open") is None
    assert page.number("pending_timers") == 0
    sql(dsn, "grant select on shardclock.incidents, shardclock.records_aside to shardclock_reader")
    assert reads.get().number("store_readings_missing") == 0


def test_the_count_of_failed_readings_is_absent_without_postgres() -> None:
    with exporting(DOWN) as one:
        assert one.get().number("store_readings_missing") is None


def test_each_table_of_the_schema_is_measured_or_has_a_reason_why_it_is_not() -> None:
    steps_text = "".join(step.text for step in steps())
    made = set(re.findall(r"^create table shardclock\.(\w+) \($", steps_text, re.MULTILINE))
    assert made | {"migrations", "functions"} == TABLE.values | UNMEASURED.keys()
    assert TABLE.values & UNMEASURED.keys() == set()
