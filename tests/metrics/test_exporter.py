"""Test that an exporter serves the reports that it receives, refuses invalid reports, and removes its socket."""

from __future__ import annotations

import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from shardclock_server.cluster.families import REPORTED
from shardclock_server.metrics.exporter import Exporter, ExporterConfig
from shardclock_server.metrics.refusals import CannotListen, PortTaken
from shardclock_server.metrics.report import Histogram, MetricsReport, Sample
from tests.support.exporting import Exporting, exporting, get, port_of, short_dir
from tests.support.program import until
from tests.support.raw_http import ask_raw

FIRED = MetricsReport(
    "a",
    "3",
    [Sample("timers_fired", (), 5)],
    [Histogram("fire_lag_seconds", ("log", "USER", "ahead"), (2, 3, *[0] * 17), 0.01)],
)


@pytest.fixture
def alone() -> Iterator[Exporting]:
    """Run an exporter that reads no tables."""
    with exporting() as one:
        yield one


def test_the_report_of_a_shard_is_on_the_page(alone: Exporting) -> None:
    alone.tell(FIRED)

    page = alone.get()

    assert page.status == 200
    assert page.content_type.startswith("text/plain")
    assert page.numbers("timers_fired_total") == {("3",): 5}
    assert page.numbers("fire_lag_seconds_count") == {("ahead", "3", "log", "USER"): 5}
    assert page.number("exporter_sources") == 1
    assert page.number("exporter_reports_total") == 1
    assert page.number("store_up") is None, "it reads no tables"
    assert "process_cpu_seconds_total" in page.text


def test_the_page_is_openmetrics_on_request(alone: Exporting) -> None:
    alone.tell(FIRED)

    page = alone.get(Accept="application/openmetrics-text;version=1.0.0;q=0.5,text/plain;q=0.1")

    assert page.content_type.startswith("application/openmetrics-text")
    assert page.text.endswith("# EOF\n")
    assert 'shardclock_timers_fired_total{shard="3"} 5' in page.text


def test_an_exporter_without_tables_is_healthy_and_ready_at_once(alone: Exporting) -> None:
    assert [(alone.get(path).status, alone.get(path).text) for path in ("/healthz", "/readyz")] == [(200, "ok\n")] * 2
    assert alone.get("/elsewhere").status == 404
    assert alone.get("/metrics?name=x").status == 200


@pytest.mark.parametrize("path", ["/metrics", "/healthz", "/readyz", "/elsewhere"])
async def test_head_has_the_answer_of_get_without_a_body(alone: Exporting, path: str) -> None:
    head, get = await ask_raw(alone.address, "HEAD", path), await ask_raw(alone.address, "GET", path)
    assert (head.status, head.headers["content-type"], head.body) == (get.status, get.headers["content-type"], b"")
    assert "content-length" in head.headers


def test_an_invalid_report_is_only_counted(alone: Exporting) -> None:
    alone.tell(FIRED)
    for datagram in (b"", b"garbage", b"[" * 50_000, b'{"source": "a", "shard": "9999"}'):
        alone.tell_raw(datagram)
    alone.tell(FIRED)

    page = alone.get()

    assert page.number("exporter_reports_refused_total") == 4
    assert page.number("exporter_reports_total") == 2
    assert page.numbers("timers_fired_total") == {("3",): 5}


def test_a_silent_source_is_missing_on_the_next_page(alone: Exporting, monkeypatch: pytest.MonkeyPatch) -> None:
    alone.tell(FIRED)
    assert alone.get().number("exporter_sources") == 1

    monkeypatch.setattr("shardclock_server.metrics.aggregator.SOURCE_EXPIRES_S", 0.0)

    page = alone.get()
    assert page.number("exporter_sources") == 0
    assert page.numbers("timers_fired_total") == page.numbers("fire_lag_seconds_count") == {}


def test_the_socket_file_exists_only_while_the_exporter_listens() -> None:
    with exporting() as one:
        assert Path(one.socket_path).is_socket()
        address = one.address

        one.exporter.close()

        assert not Path(one.socket_path).exists()
        with pytest.raises(OSError, match="refused"):
            get(address)


def test_an_exporter_can_be_closed_before_its_start() -> None:
    Exporter(ExporterConfig("127.0.0.1", 0, Path("never.sock"), REPORTED)).close()


# Ports and sockets that can't be used


def test_a_port_that_is_taken_is_named_and_reports_are_received_until_it_is_free() -> None:
    with short_dir() as place, socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        exporter = Exporter(ExporterConfig("127.0.0.1", port, place / "e.sock", REPORTED))
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
def test_a_foreign_host_is_refused_with_its_name(host: str) -> None:
    with pytest.raises(PortTaken, match=f"of {re.escape(host)} can't be opened"), exporting(host=host):
        pass


def test_an_exporter_serves_on_ipv6() -> None:
    try:
        with exporting(host="::1") as one:
            assert one.address.startswith("http://[::1]:")
            assert one.get("/healthz").status == 200
    except PortTaken:
        pytest.skip("this machine has no IPv6 loopback")


def test_two_exporters_never_share_a_port(alone: Exporting) -> None:
    with pytest.raises(PortTaken), exporting(port=port_of(alone.address)):
        pass


def test_a_socket_in_a_missing_directory_is_refused_until_the_directory_exists() -> None:
    with short_dir() as place:
        path = place / "not yet" / "e.sock"
        exporter = Exporter(ExporterConfig("127.0.0.1", 0, path, REPORTED))
        with closing(exporter):
            with pytest.raises(CannotListen, match=r"not yet.*No such file.*SHARDCLOCK_METRICS_SOCKET"):
                exporter.start()
            assert exporter.address is None

            path.parent.mkdir()
            exporter.start()

            one = Exporting(exporter, str(path))
            one.tell(FIRED)
            assert one.get().number("exporter_sources") == 1


def test_a_file_that_is_not_a_socket_is_kept() -> None:
    with short_dir() as place:
        path = place / "precious"
        path.write_text("data")
        exporter = Exporter(ExporterConfig("127.0.0.1", 0, path, REPORTED))
        with closing(exporter), pytest.raises(CannotListen, match="precious"):
            exporter.start()
        assert path.read_text() == "data"


def test_the_socket_of_a_living_exporter_is_kept(alone: Exporting) -> None:
    second = Exporter(ExporterConfig("127.0.0.1", 0, Path(alone.socket_path), REPORTED))
    with closing(second), pytest.raises(CannotListen, match="another exporter"):
        second.start()

    alone.tell(FIRED)
    assert alone.get().number("exporter_sources") == 1


KILLED = """
import sys
from pathlib import Path
from shardclock_server.metrics.exporter import Exporter, ExporterConfig
from shardclock_server.cluster.families import REPORTED
Exporter(ExporterConfig("127.0.0.1", 0, Path(sys.argv[1]), REPORTED)).start()
print("listening", flush=True)
input()
"""


def test_the_socket_of_a_killed_exporter_is_taken_over() -> None:
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

        exporter = Exporter(ExporterConfig("127.0.0.1", 0, path, REPORTED))
        with closing(exporter):
            exporter.start()
            one = Exporting(exporter, str(path))
            one.tell(FIRED)
            assert one.get().number("exporter_sources") == 1


def test_a_client_that_leaves_before_its_answer_is_logged_in_one_line(
    capfd: pytest.CaptureFixture[str],
) -> None:
    gone, answering = threading.Event(), threading.Event()

    class SlowExporter(Exporter):
        def collect(self) -> Iterator[Any]:
            answering.set()
            gone.wait(10)
            yield from super().collect()

    with (
        short_dir() as place,
        closing(SlowExporter(ExporterConfig("127.0.0.1", 0, place / "e.sock", REPORTED))) as exporter,
    ):
        exporter.start()
        assert exporter.address is not None
        client = socket.create_connection(("127.0.0.1", port_of(exporter.address)))
        # The client closes with a reset, so that the answer can't be written.
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
