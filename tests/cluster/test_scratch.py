"""`up` removes the temporary directories of killed processes, but no directory that may be in use."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from shardclock_server.cluster import scratch
from shardclock_server.cluster.host_process import LOCAL_HOST
from shardclock_server.cluster.scratch import LOCK, PLACE_BYTES_MAX, NoPlace, Scratch, remove_abandoned, short_place
from tests.support.program import until

MAKE = (
    "import pathlib, sys; from shardclock_server.cluster import scratch; s = scratch.Scratch.make('test');"
    "print(s.path, flush=True); input()"
)
HAND_ON = (
    "import subprocess, sys; from shardclock_server.cluster.scratch import Scratch; s = Scratch.make('test');"
    "c = subprocess.Popen([sys.executable, '-c', 'input()'], pass_fds=[s.fileno()], stdout=subprocess.DEVNULL);"
    "print(s.path, c.pid, flush=True);input()"
)


@pytest.fixture(autouse=True)
def temp(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Let this process and its children create temporary directories in a directory of this test."""
    with tempfile.TemporaryDirectory(prefix="sc-") as place:
        monkeypatch.setattr(tempfile, "tempdir", place)
        monkeypatch.setenv("TMPDIR", place)
        monkeypatch.setattr(scratch, "MEMORY", Path(place, "memory"))
        yield Path(place)


def start(program: str, *arguments: Path) -> tuple[subprocess.Popen[str], list[str]]:
    """Start a process that holds a temporary directory, and read the process's output."""
    pipe = subprocess.PIPE
    process = subprocess.Popen(
        [sys.executable, "-c", program, *map(str, arguments)], stdin=pipe, stdout=pipe, text=True
    )
    assert process.stdout is not None
    return process, process.stdout.readline().split()


def start_local_host(temp: Path) -> subprocess.Popen[str]:
    """Start a host of local keepers, and wait for the socket of its fork server."""
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", LOCAL_HOST], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    until(lambda: list(temp.rglob("listener-*")), "the socket of its fork server")
    return process


def kill(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.communicate()


def test_the_directories_of_a_killed_process_are_removed(temp: Path) -> None:
    process, (path,) = start(MAKE)
    (Path(path) / "session").mkdir()
    (Path(path) / "session" / "log").write_text("x")

    assert remove_abandoned() == [], "it lives"
    kill(process)

    assert remove_abandoned() == [Path(path)]
    assert list(temp.iterdir()) == []


def test_shared_memory_of_a_killed_process_is_also_removed(temp: Path) -> None:
    (temp / "memory").mkdir()
    process, (path,) = start(
        MAKE.replace("make('test')", "make('test', place=pathlib.Path(sys.argv[1]))"), temp / "memory"
    )
    kill(process)

    assert remove_abandoned() == [Path(path)]


def test_a_child_that_was_handed_the_lock_keeps_the_directory(temp: Path) -> None:
    process, (path, child) = start(HAND_ON)
    held = os.dup(process.stdin.fileno()) if process.stdin else -1  # the child reads this pipe, and stays alive
    kill(process)

    assert remove_abandoned() == []
    os.kill(int(child), signal.SIGKILL)
    os.close(held)
    assert _eventually_removed(Path(path))


def test_directories_of_a_live_process_are_not_removed(temp: Path) -> None:
    process, (path,) = start(MAKE)
    kill(process)
    child, _ = start(f"print('{path}', flush=True); input()")

    assert remove_abandoned() == []
    kill(child)
    assert remove_abandoned() == [Path(path)]


def test_the_host_of_local_keepers_leaves_no_directory(temp: Path) -> None:
    host = start_local_host(temp)
    host.communicate()  # the end of its input stops the host

    assert host.returncode == 0
    assert list(temp.iterdir()) == []


def test_the_directory_of_a_killed_host_of_local_keepers_is_removed(temp: Path) -> None:
    kill(start_local_host(temp))

    (path,) = list(temp.iterdir())
    assert _eventually_removed(path)


def test_directories_of_other_programs_are_not_removed(temp: Path) -> None:
    strangers = [temp / "shardclock-ray-stranger", temp / "shardclock-metrics-file", temp / "shardclock-ray-link"]
    strangers[0].mkdir()
    strangers[1].write_text("")
    abandoned = Scratch.make("elsewhere")
    os.close(abandoned.fileno())
    moved = temp / "other"
    abandoned.path.rename(moved)
    strangers[2].symlink_to(moved)

    assert remove_abandoned() == []
    assert all(path.exists() for path in (*strangers, moved / LOCK))


def test_a_directory_of_another_user_is_not_removed(temp: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    process, (path,) = start(MAKE)
    kill(process)
    monkeypatch.setattr(os, "geteuid", lambda: 4_711)

    assert remove_abandoned() == []
    assert Path(path).exists()


def test_a_removed_directory_no_longer_exists_and_a_second_removal_is_no_error(temp: Path) -> None:
    made = Scratch.make("test")
    assert made.path.name.startswith("shardclock-test-")
    made.remove()
    made.remove()

    assert list(temp.iterdir()) == []


def _eventually_removed(path: Path) -> bool:
    # The kernel releases the dead process's lock a moment after the kill.
    return any(path in remove_abandoned() for _ in range(10_000))


@pytest.mark.parametrize("length", [23, 49, 70, 150])
def test_a_directory_with_too_long_a_path_for_a_socket_is_not_used(
    temp: Path, monkeypatch: pytest.MonkeyPatch, length: int
) -> None:
    long = temp / ("x" * (length - len(str(temp)) - 1))
    long.mkdir()

    _is_made_elsewhere(long, monkeypatch)


@pytest.mark.parametrize("name", ["a b", "ü", "\udcff", "a'b", "$x"])
def test_a_directory_with_an_odd_name_is_not_used(temp: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    (temp / name).mkdir()

    _is_made_elsewhere(temp / name, monkeypatch)


@pytest.mark.parametrize("place", ["/nonexistent", "/proc", "/dev/null", ""])
def test_an_unusable_directory_is_skipped(monkeypatch: pytest.MonkeyPatch, place: str) -> None:
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.setenv("TMPDIR", place)

    assert short_place() == Path("/tmp")


def test_a_start_without_space_for_temporary_files_names_the_variable_that_helps(
    temp: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(temp / "gone"))
    monkeypatch.setattr(scratch, "SHORT", temp / "gone")

    with pytest.raises(NoPlace, match=r"No such file or directory: .*; name one with TMPDIR$"):
        Scratch.make("test", place=short_place())


def test_a_start_without_a_directory_for_temporary_files_names_the_variable_that_helps(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.setattr(tempfile, "_candidate_tempdir_list", lambda: ["/nonexistent"])

    with pytest.raises(NoPlace, match=r"No usable temporary directory found .*; name one with TMPDIR$"):
        remove_abandoned()


def test_the_longest_socket_of_ray_fits_below_the_longest_directory_that_is_used() -> None:
    of_ray = "session_2026-11-29_20-32-03_123456_1234567/sockets/plasma_store"

    assert PLACE_BYTES_MAX + len(f"/shardclock-ray-12345678/r/{of_ray}") <= 107


def _is_made_elsewhere(chosen: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(chosen))
    monkeypatch.setenv("TMPDIR", str(chosen))
    process, (path,) = start(MAKE.replace("make('test')", "make('test', place=scratch.short_place())"))
    kill(process)

    assert Path(path).parent == Path("/tmp")
    assert remove_abandoned() == [Path(path)], "the next `up` looks there"
    assert list(chosen.iterdir()) == []
