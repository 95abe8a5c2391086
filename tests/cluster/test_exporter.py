"""If metrics can't be served, the cluster reports the reason, and timers fire nevertheless."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from shardclock_server.cluster.exporter import Exporting
from shardclock_server.cluster.settings import load_settings
from shardclock_server.metrics.report import MetricsReport, Sample
from shardclock_server.sql.dsn import Dsn
from tests.support.cli_asserts import BAD_INPUT, DOWN, NOT_THERE, SECRET, assert_refused
from tests.support.exporting import Exporting as Node
from tests.support.exporting import get, short_dir
from tests.support.program import PROGRAM, Shell, run

FIRED = MetricsReport("a", "3", [Sample("timers_fired", (), 5)])


@pytest.fixture
def shell(dsn: str, capsys: pytest.CaptureFixture[str]) -> Shell:
    """Run commands in this process, on a migrated, empty database."""
    return Shell(dsn, capsys)


@pytest.fixture
def taken() -> Iterator[socket.socket]:
    """Occupy a free port, as another program would."""
    with socket.create_server(("127.0.0.1", 0)) as other:
        yield other


def port(server: socket.socket) -> str:
    return str(server.getsockname()[1])


# shardclock exporter


@contextmanager
def exporter(**environment: str) -> Iterator[tuple[Node, subprocess.Popen[str]]]:
    """Run `shardclock exporter` in a separate process, and enter the block when it has printed its address."""
    with short_dir() as place:
        path = str(place / "e.sock")
        settings = os.environ | {"SHARDCLOCK_METRICS_SOCKET": path, "SHARDCLOCK_METRICS_PORT": "0"} | environment
        process = subprocess.Popen([*PROGRAM, "exporter"], stderr=subprocess.PIPE, text=True, env=settings)
        with process:
            try:
                assert process.stderr is not None
                lines = iter(process.stderr.readline, "")
                address = next(found[1] for line in lines if (found := re.search(r"metrics at (\S+)/metrics", line)))
                yield _Served(address, path), process
            finally:
                process.kill()


class _Served(Node):
    """An exporter in a separate process."""

    def __init__(self, address: str, socket_path: str) -> None:
        self._address, self.socket_path, self.told = address, socket_path, 0

    @property
    def address(self) -> str:
        return self._address


def test_an_exporter_serves_until_a_signal_stops_it_and_removes_its_socket(dsn: str) -> None:
    with exporter(SHARDCLOCK_DSN=dsn) as (node, process):
        node.tell(FIRED)
        page = node.get()
        assert (page.number("store_up"), page.numbers("timers_fired_total")) == (1, {("3",): 5})
        assert node.get("/readyz").status == 200

        process.send_signal(signal.SIGTERM)

        assert process.wait(20) == 0
        assert not Path(node.socket_path).exists()


def test_if_the_database_does_not_answer_the_exporter_serves_and_reports_this() -> None:
    with exporter(SHARDCLOCK_DSN=DOWN) as (node, _):
        node.tell(FIRED)

        assert node.get().number("store_up") == 0
        assert node.get().numbers("timers_fired_total") == {("3",): 5}
        assert [node.get(path).status for path in ("/healthz", "/readyz")] == [200, 503]
        assert SECRET not in node.get("/readyz").text


def test_an_exporter_that_reads_no_tables_needs_no_database_and_starts_no_database() -> None:
    with short_dir() as data, exporter(
        SHARDCLOCK_METRICS_STORE="false", SHARDCLOCK_DATA_DIR=str(data / "none"), SHARDCLOCK_DSN=DOWN
    ) as (node, _):  # fmt: skip
        assert node.get().number("store_up") is None
        assert node.get("/readyz").status == 200
        assert not (data / "none").exists()


def test_an_exporter_without_a_socket_is_refused(shell: Shell) -> None:
    assert_refused(shell("exporter"), "SHARDCLOCK_METRICS_SOCKET")


@pytest.mark.shared_database
@pytest.mark.parametrize(
    ("variable", "given", "said"),
    [
        ("METRICS_PORT", "65536", "65536"),
        ("METRICS_PORT", "-1", "-1"),
        ("METRICS_PORT", "http", "http"),
        ("METRICS_PORT", "", "''"),
        ("METRICS_HOST", "", "''"),
        ("METRICS_SOCKET", "", "''"),
        ("METRICS_SOCKET", "/" + "x" * 100, "101 bytes"),
        ("METRICS_STORE", "maybe", "maybe"),
        ("DSN", "mysql://user:hunter2@localhost/x", "must be a URL"),
        ("DSN", "localhost", "must be a URL"),
    ],
)
@pytest.mark.parametrize("command", ["exporter", "up"])
def test_settings_that_can_not_be_are_refused_by_name(
    shell: Shell, command: str, variable: str, given: str, said: str
) -> None:
    environment: dict[str, Any] = {"SHARDCLOCK_METRICS_SOCKET": "/tmp/x.sock", f"SHARDCLOCK_{variable}": given}

    done = shell(command, **environment)

    assert_refused(done, f"SHARDCLOCK_{variable}", said)
    assert SECRET not in done.err


def refused(**environment: str) -> Any:
    """Run `shardclock exporter` with arguments with which it exits immediately."""
    with short_dir() as place:
        socket_path = {"SHARDCLOCK_METRICS_SOCKET": str(place / "e.sock")}
        done = run("exporter", environment={"SHARDCLOCK_DSN": DOWN, **socket_path, **environment}, timeout_s=60)
        assert list(place.iterdir()) == [], "it leaves nothing behind"
    return done


def test_an_exporter_ends_in_a_line_if_its_port_is_taken(taken: socket.socket) -> None:
    done = refused(SHARDCLOCK_METRICS_PORT=port(taken))

    assert_refused(done, port(taken), "in use", "SHARDCLOCK_METRICS_PORT", code=NOT_THERE)


def test_keep_running_is_refused_without_a_ray_cluster_that_lives_on(shell: Shell) -> None:
    done = shell("up", "--keep-running")

    assert_refused(done, "--keep-running", "SHARDCLOCK_RAY_ADDRESS", code=BAD_INPUT)


# Beside a running cluster


@pytest.fixture
def told() -> list[str]:
    return []


def beside(told: list[str], dsn: str = DOWN, **environment: str) -> Exporting:
    with pytest.MonkeyPatch.context() as patch:
        for name, setting in environment.items():
            patch.setenv(f"SHARDCLOCK_{name}", setting)
        return Exporting(load_settings(), Dsn(dsn), tell=told.append, unready=lambda: ["Ray has not started"])


def test_the_exporter_serves_at_once_and_reports_its_address_once(told: list[str]) -> None:
    exporting = beside(told)
    with closing(_Stops(exporting)):
        for _ in range(3):
            exporting.tend()

        address = exporting._exporter.address
        assert told == [f"metrics at {address}/metrics"]
        assert address is not None
        ready = get(address, "/readyz")
        assert (ready.status, ready.text.splitlines()[0]) == (503, "Ray has not started")
        assert Path(exporting.socket_path).is_socket()
    assert not Path(exporting.socket_path).parent.exists()


def test_a_taken_port_is_reported_once_and_is_used_when_it_is_free(
    taken: socket.socket, told: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shardclock_server.cluster.exporter.RETRY_S", 0.0)
    exporting = beside(told, METRICS_PORT=port(taken))
    with closing(_Stops(exporting)):
        for _ in range(3):
            exporting.tend()
        (line,) = told
        assert port(taken) in line
        assert "timers fire without it" in line
        node = Node(exporting._exporter, exporting.socket_path)
        node.tell(FIRED)

        wanted = int(port(taken))
        taken.close()
        exporting.tend()

        assert told == [line, f"metrics at http://127.0.0.1:{wanted}/metrics"]
        assert node.get().numbers("timers_fired_total") == {("3",): 5}, "the exporter had received the report meanwhile"


def test_a_port_that_is_taken_is_not_tried_at_every_turn(
    taken: socket.socket, told: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    exporting = beside(told, METRICS_PORT=port(taken))
    with closing(_Stops(exporting)):
        exporting.tend()
        monkeypatch.setattr(exporting._exporter, "start", lambda: told.append("tried"))
        exporting.tend()

        assert len(told) == 1


def test_an_impossible_socket_is_reported_and_metrics_are_served_once_it_is_possible(
    told: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shardclock_server.cluster.exporter.RETRY_S", 0.0)
    with short_dir() as place:
        path = place / "later" / "e.sock"
        exporting = beside(told, METRICS_SOCKET=str(path))
        with closing(_Stops(exporting)):
            exporting.tend()
            exporting.tend()
            assert len(told) == 1
            assert str(path) in told[0]

            path.parent.mkdir()
            exporting.tend()

            assert told[1].startswith("metrics at ")
            assert path.is_socket()
        assert path.parent.exists(), "the exporter keeps a directory that the user has named"
        assert not path.exists()


def test_an_exporter_without_tables_sends_no_query_to_the_database(told: list[str]) -> None:
    exporting = beside(told, METRICS_STORE="false")
    with closing(_Stops(exporting)):
        exporting.tend()
        assert exporting._exporter.address is not None
        assert get(exporting._exporter.address).number("store_up") is None


class _Stops:
    """Stop the exporter, for `closing`."""

    def __init__(self, exporting: Exporting) -> None:
        self.close = exporting.stop
