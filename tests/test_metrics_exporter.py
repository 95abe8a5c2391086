"""Prove that an exporter serves what it hears and reads, says what it lacks, and leaves nothing behind."""

from __future__ import annotations

import asyncio
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from metrics.exporter import Exporter, Place
from metrics.families import LABELS
from metrics.report import Report, Sample, Spread
from metrics.server import CannotListen, PortTaken
from metrics.tables import read_tables
from sql.migrate import migrations
from tests.commands import DOWN, SECRET
from tests.exporting import Exporting, exporting, get, port_of, short_dir
from tests.program import until
from tests.store import add_timers, query

FIRED = Report(
    "a", "3", [Sample("timers_fired", (), 5)], [Spread("fire_lag_seconds", ("log", "USER"), (2, 3, *[0] * 17), 0.01)]
)


@pytest.fixture
def alone() -> Iterator[Exporting]:
    """Run an exporter that reads no tables."""
    with exporting() as one:
        yield one


def test_what_a_shard_says_is_on_the_page(alone: Exporting) -> None:
    alone.tell(FIRED)

    page = alone.get()

    assert page.status == 200
    assert page.content_type.startswith("text/plain")
    assert page.numbers("timers_fired_total") == {("3",): 5}
    assert page.numbers("fire_lag_seconds_count") == {("3", "log", "USER"): 5}
    assert page.number("exporter_sources") == 1
    assert page.number("exporter_reports_total") == 1
    assert page.number("store_up") is None, "it reads no tables"
    assert "process_cpu_seconds_total" in page.text


def test_prometheus_may_ask_for_openmetrics(alone: Exporting) -> None:
    alone.tell(FIRED)

    page = alone.get(Accept="application/openmetrics-text;version=1.0.0;q=0.5,text/plain;q=0.1")

    assert page.content_type.startswith("application/openmetrics-text")
    assert page.text.endswith("# EOF\n")
    assert 'shardclock_timers_fired_total{shard="3"} 5' in page.text


def test_without_tables_it_is_healthy_and_ready_as_soon_as_it_answers(alone: Exporting) -> None:
    assert [(alone.get(path).status, alone.get(path).text) for path in ("/healthz", "/readyz")] == [(200, "ok\n")] * 2
    assert alone.get("/elsewhere").status == 404
    assert alone.get("/metrics?name=x").status == 200


def test_what_is_no_report_is_counted_and_changes_nothing_else(alone: Exporting) -> None:
    alone.tell(FIRED)
    for datagram in (b"", b"garbage", b"[" * 50_000, b'{"source": "a", "shard": "9999"}'):
        alone.tell_raw(datagram)
    alone.tell(FIRED)

    page = alone.get()

    assert page.number("exporter_reports_refused_total") == 4
    assert page.number("exporter_reports_total") == 2
    assert page.numbers("timers_fired_total") == {("3",): 5}


def test_a_source_that_has_been_silent_is_gone_at_the_next_look(
    alone: Exporting, monkeypatch: pytest.MonkeyPatch
) -> None:
    alone.tell(FIRED)
    assert alone.get().number("exporter_sources") == 1

    monkeypatch.setattr("metrics.board.SILENT_S", 0.0)

    page = alone.get()
    assert page.number("exporter_sources") == 0
    assert page.numbers("timers_fired_total") == page.numbers("fire_lag_seconds_count") == {}


def test_the_socket_is_there_while_it_listens_and_gone_after() -> None:
    with exporting() as one:
        assert Path(one.socket_path).is_socket()
        address = one.address

        one.exporter.close()

        assert not Path(one.socket_path).exists()
        with pytest.raises(OSError, match="refused"):
            get(address)


def test_it_can_be_closed_before_it_was_started() -> None:
    Exporter(Place("127.0.0.1", 0, Path("never.sock"))).close()


# Where it can't listen


def test_a_port_that_is_taken_is_refused_by_name_and_reports_are_heard_until_it_is_free() -> None:
    with short_dir() as place, socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        exporter = Exporter(Place("127.0.0.1", port, place / "e.sock"))
        with closing(exporter):
            for _ in range(2):
                with pytest.raises(PortTaken, match=rf"{port} .*SHARDCLOCK_METRICS_PORT"):
                    exporter.start()
            assert exporter.address is None
            one = Exporting(exporter, str(place / "e.sock"))
            one.tell(FIRED)
            other.close()

            exporter.start()

            assert one.get().numbers("timers_fired_total") == {("3",): 5}
            assert port_of(one.address) == port


@pytest.mark.parametrize("host", ["256.0.0.1", "203.0.113.7"])
def test_a_host_that_is_not_ours_is_refused_by_name(host: str) -> None:
    with pytest.raises(PortTaken, match=f"of {re.escape(host)} can't be listened on"), exporting(host=host):
        pass


def test_it_serves_on_ipv6_too() -> None:
    try:
        with exporting(host="::1") as one:
            assert one.address.startswith("http://[::1]:")
            assert one.get("/healthz").status == 200
    except PortTaken:
        pytest.skip("this machine has no IPv6 loopback")


def test_two_exporters_never_share_a_port(alone: Exporting) -> None:
    with pytest.raises(PortTaken), exporting(port=port_of(alone.address)):
        pass


def test_a_socket_in_no_directory_is_refused_until_there_is_one() -> None:
    with short_dir() as place:
        path = place / "not yet" / "e.sock"
        exporter = Exporter(Place("127.0.0.1", 0, path))
        with closing(exporter):
            with pytest.raises(CannotListen, match=r"not yet.*No such file.*SHARDCLOCK_METRICS_SOCKET"):
                exporter.start()
            assert exporter.address is None

            path.parent.mkdir()
            exporter.start()

            one = Exporting(exporter, str(path))
            one.tell(FIRED)
            assert one.get().number("exporter_sources") == 1


def test_a_file_that_is_no_socket_is_left_alone() -> None:
    with short_dir() as place:
        path = place / "precious"
        path.write_text("data")
        exporter = Exporter(Place("127.0.0.1", 0, path))
        with closing(exporter), pytest.raises(CannotListen, match="precious"):
            exporter.start()
        assert path.read_text() == "data"


def test_a_socket_on_which_another_exporter_listens_stays_its_own(alone: Exporting) -> None:
    second = Exporter(Place("127.0.0.1", 0, Path(alone.socket_path)))
    with closing(second), pytest.raises(CannotListen, match="another exporter"):
        second.start()

    alone.tell(FIRED)
    assert alone.get().number("exporter_sources") == 1


KILLED = """
import sys
from pathlib import Path
from metrics.exporter import Exporter, Place
from metrics.families import LABELS
Exporter(Place("127.0.0.1", 0, Path(sys.argv[1]))).start()
print("listening", flush=True)
input()
"""


def test_the_socket_of_an_exporter_that_was_killed_is_taken_over() -> None:
    with short_dir() as place:
        path = place / "e.sock"
        process = subprocess.Popen(
            [sys.executable, "-c", KILLED, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        with process:
            assert process.stdout is not None
            assert process.stdout.readline() == b"listening\n"
            process.send_signal(signal.SIGKILL)
        assert path.is_socket()

        exporter = Exporter(Place("127.0.0.1", 0, path))
        with closing(exporter):
            exporter.start()
            one = Exporting(exporter, str(path))
            one.tell(FIRED)
            assert one.get().number("exporter_sources") == 1


def test_a_client_that_leaves_before_its_answer_costs_a_line_and_no_traceback(
    capfd: pytest.CaptureFixture[str],
) -> None:
    gone, answering = threading.Event(), threading.Event()

    class Slow(Exporter):
        def collect(self) -> Iterator[Any]:
            answering.set()
            gone.wait(10)
            yield from super().collect()

    with short_dir() as place, closing(Slow(Place("127.0.0.1", 0, place / "e.sock"))) as exporter:
        exporter.start()
        assert exporter.address is not None
        client = socket.create_connection(("127.0.0.1", port_of(exporter.address)))
        # Closed with a reset, so that the answer can't be written.
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        client.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
        answering.wait(10)
        client.close()
        gone.set()
        said: list[str] = []

        def has_said() -> bool:
            said.extend(capfd.readouterr())
            return any(said)

        until(has_said, "a line about it")
        assert "Traceback" not in "".join(said)
        assert get(exporter.address, "/healthz").status == 200


# The tables


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
    assert page.numbers("table_rows").keys() == {(table,) for table in LABELS["table"]}
    assert page.number("schema_version") == migrations()[-1].version
    assert [reads.get(path).status for path in ("/healthz", "/readyz")] == [200, 200]


def test_scrapes_at_the_same_time_and_soon_after_share_one_reading(
    reads: Exporting, monkeypatch: pytest.MonkeyPatch
) -> None:
    readings = []

    async def counted(session: Any) -> Any:
        readings.append(session)
        return await read_tables(session)

    monkeypatch.setattr("metrics.reading.read_tables", counted)

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
    monkeypatch.setattr("metrics.reading.FRESH_S", 0.0)
    answers = iter([OSError("gone")])

    async def away_once(session: Any) -> Any:
        for error in answers:
            raise TimeoutError from error
        return await read_tables(session)

    monkeypatch.setattr("metrics.reading.read_tables", away_once)
    with exporting(dsn) as one:
        assert (one.get("/readyz").status, one.get("/readyz").status) == (503, 200)
        assert one.get().number("store_up") == 1


def test_a_schema_that_is_too_old_makes_it_unready_and_names_the_way_out(dsn: str, reads: Exporting) -> None:
    last = migrations()[-1].version
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
        exporter = Exporter(Place("127.0.0.1", 0, place / "e.sock", DOWN), unready=lambda: lacks)
        with closing(exporter):
            exporter.start()
            assert exporter.address is not None
            first = get(exporter.address, "/readyz").text.splitlines()
            lacks.clear()
            second = get(exporter.address, "/readyz").text.splitlines()

    assert first[0] == "Ray has not started"
    assert first[1:] == second
    assert len(second) == 1
