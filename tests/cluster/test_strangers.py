"""A cluster loads no foreign module, joins no other Ray, and listens to no other machine of the network."""

from __future__ import annotations

import signal
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from ipaddress import ip_address
from pathlib import Path

import psutil
import pytest

from tests.support import PACKAGE_NAMES
from tests.support.cluster_process import STOP_S, ClusterProcess
from tests.support.processes import kill_all
from tests.support.program import PROGRAM, run, until
from tests.support.rays import RayOfNodes

SCRIPT = Path(sys.executable).parent / "shardclock"
NAMES = (*PACKAGE_NAMES, "asyncpg", "pydantic", "ray")
SAID_WITHIN_S = 15.0

pytestmark = [pytest.mark.ray, pytest.mark.exhaustive]


def test_a_module_of_the_current_directory_replaces_no_module_of_the_server(place: Path) -> None:
    # Given a user's own directory, with modules and packages of our names
    here = place / "here"
    here.mkdir()
    cuckoo = f"import pathlib, sys\npathlib.Path({str(place / 'hatched')!r}).write_text(__name__)\nsys.exit(1)\n"
    for name in NAMES:
        (here / f"{name}.py").write_text(cuckoo)
        (here / name).mkdir()
        (here / name / "__init__.py").write_text(cuckoo)

    # When a cluster is started in this directory
    up = ClusterProcess(place, program=[str(SCRIPT)], cwd=here)
    try:
        up.until_running()
        run("schedule", "--in", "0s", "--name", "soon", environment=up.environment)
        until(up.serving, "two shards")
        ended = lambda: run("list", "--state", "triggered", "--json", environment=up.environment).json["timers"]  # noqa: E731
        fired = until(ended, "the timer to fire")
    finally:
        up.end()

    # Then the cluster fires, and has imported none of these modules
    assert [timer["name"] for timer in fired] == ["soon"]
    assert not (place / "hatched").exists(), (place / "hatched").read_text()


@pytest.fixture(scope="module")
def rays() -> Iterator[RayOfNodes]:
    """Start our own Ray in the current directory."""
    with closing(RayOfNodes()) as rays:
        yield rays


async def test_a_worker_does_not_search_the_start_directory_of_its_cluster_for_modules(rays: RayOfNodes) -> None:
    # A module that Ray has already imported can't be replaced; a later import could find a foreign module.
    path = await rays.module_path()

    assert path
    assert str(Path.cwd()) not in path


async def test_our_own_ray_listens_only_on_loopback(rays: RayOfNodes) -> None:
    # Given a Ray with a worker process that also opens ports
    await rays.module_path()
    listening = {
        (process.name(), connection.laddr.ip)
        for process in rays.processes("")
        for connection in process.net_connections("inet")
        if connection.status == psutil.CONN_LISTEN
    }

    # Then no other machine can reach a port of this Ray
    assert {"gcs_server", "raylet"} <= {name for name, _ in listening}
    assert [it for it in listening if not is_loopback(it[1])] == []


async def test_our_own_ray_runs_only_the_processes_that_it_needs(rays: RayOfNodes) -> None:
    programs = {Path(argument).name for process in rays.processes("") for argument in process.cmdline()}

    assert {"gcs_server", "raylet", "log_monitor.py"} <= programs
    assert not {"monitor.py", "dashboard.py"} & programs


def is_loopback(address: str) -> bool:
    """Return whether an address is a loopback address, including an IPv4 address in IPv6 notation."""
    ip = ip_address(address)
    return (getattr(ip, "ipv4_mapped", None) or ip).is_loopback


# Each process of the cluster runs this code at its start, from a `sitecustomize.py`. So `up` and its host wait 8 s for
# Ray instead of 45 s.
IMPATIENCE = "from shardclock_server.cluster import ray_cluster; ray_cluster.WAIT_S = 8.0"


@pytest.mark.parametrize("listens", [False, True], ids=["no-server", "another-server"])
def test_a_ray_cluster_that_does_not_answer_is_reported_after_a_time_limit(
    place: Path, dsn: str, listens: bool
) -> None:
    (place / "sitecustomize.py").write_text(IMPATIENCE)
    with socket.socket() as stranger:
        stranger.bind(("127.0.0.1", 0))
        if listens:
            stranger.listen()
        address = f"127.0.0.1:{stranger.getsockname()[1]}"
        begin = time.monotonic()
        up = ClusterProcess(place, SHARDCLOCK_DSN=dsn, SHARDCLOCK_RAY_ADDRESS=address, PYTHONPATH=str(place))
        try:
            until(lambda: f"no Ray answers at {address}" in up.said, "it to say so", within_s=SAID_WITHIN_S)
            print(f"said after {time.monotonic() - begin:.1f} s")  # noqa: T201 - the figure, under -s
            assert up.process.wait(30) == 3, "or it is not impatient"
        finally:
            up.end()
    assert f"shardclock: no Ray answers at {address}: check SHARDCLOCK_RAY_ADDRESS" in up.said.splitlines()[-1]
    assert "Traceback" not in up.said


def test_a_command_that_waits_for_a_ray_cluster_can_be_stopped(place: Path, dsn: str) -> None:
    up = ClusterProcess(place, SHARDCLOCK_DSN=dsn, SHARDCLOCK_RAY_ADDRESS="127.0.0.1:1")
    try:
        until(lambda: "no Ray answers" in up.said, "it to say that it waits", within_s=SAID_WITHIN_S)
        begin = time.monotonic()
        up.process.send_signal(signal.SIGINT)

        assert up.process.wait(STOP_S) == 0, up.said
        assert time.monotonic() - begin < 10
        assert "Traceback" not in up.said
    finally:
        up.end()


def test_the_next_start_removes_the_files_of_a_killed_up(place: Path) -> None:
    # Given an `up` that was killed with all processes that it had started
    up = ClusterProcess(place)
    try:
        up.until_running()
        until(up.serving, "two shards")
        kill_all(up.processes)
        up.process.wait()
        left = sorted(path.name.rsplit("-", 1)[0] for path in up.temp.glob("shardclock-*"))
        assert left == ["shardclock-metrics", "shardclock-ray"]

        # When another `up` is started and stopped
        again = ClusterProcess(place, program=PROGRAM, TMPDIR=str(up.temp))
        try:
            again.until_running()
            assert again.said.count("the process that used it was killed") == 2
        finally:
            again.end()

        # Then neither `up` has left a process or a file
        assert list(up.temp.glob("shardclock-*")) == []
    finally:
        up.end()
