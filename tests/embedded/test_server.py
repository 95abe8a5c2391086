"""Test that processes share the embedded Postgres, that it survives a kill, and that the last process stops it."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path

import asyncpg
import psutil
import pytest

from shardclock_server.embedded import postmaster
from shardclock_server.embedded.postmaster import Postmaster
from shardclock_server.embedded.server import EmbeddedPostgres, EmbeddedPostgresError
from tests.conftest import VERSIONS
from tests.support.memory import IN_MEMORY

END_S = 60

# A process that uses the server in the directory argv[1], prints the postmaster's pid, and releases the server when
# stdin ends.
USER = """
import sys
from pathlib import Path
from shardclock_server.embedded.server import EmbeddedPostgres
server = EmbeddedPostgres.start(Path(sys.argv[1]), version=int(sys.argv[2]))
print(server.postmaster_pid, server.dsn, flush=True)
sys.stdin.read()
server.close()
"""


@pytest.fixture
def data_dir() -> Iterator[Path]:
    """Make a directory for a server, and check that no server outlives the test."""
    # Not pytest's tmp_path, because another pytest session would remove the server user's access to the parent
    # directories.
    path = Path(tempfile.mkdtemp(prefix="shardclock-test-", dir=IN_MEMORY))
    yield path
    left = [process.pid for process in _postmasters(path)]
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    shutil.rmtree(path)
    assert left == []


@pytest.mark.slow
@pytest.mark.parametrize("version", VERSIONS)
async def test_the_server_starts_with_our_settings_and_without_a_port(data_dir: Path, version: int) -> None:
    server = EmbeddedPostgres.start(data_dir, version=version)
    try:
        assert str(await _value(server.dsn, "show server_version_num")).startswith(str(version))
        assert await _value(server.dsn, "show listen_addresses") == ""
        assert await _value(server.dsn, "show max_connections") == "200"
        assert await _value(server.dsn, "show timezone") == "UTC"
    finally:
        server.close()


@pytest.mark.slow
@pytest.mark.parametrize("version", VERSIONS)
async def test_a_second_process_joins_the_server_and_the_last_process_stops_the_server(
    data_dir: Path, version: int
) -> None:
    first = EmbeddedPostgres.start(data_dir, version=version)
    try:
        second = _User(data_dir, version)
        assert second.said == [str(first.postmaster_pid), first.dsn]
    finally:
        first.close()

    assert first.is_running(), "the second one still uses it"
    assert await _value(first.dsn, "select 1") == 1
    second.let_go()
    assert not first.is_running()


@pytest.mark.parametrize("version", VERSIONS)
async def test_after_a_kill_of_the_postmaster_the_server_restarts_with_its_data(data_dir: Path, version: int) -> None:
    server = EmbeddedPostgres.start(data_dir, version=version)
    try:
        await _value(server.dsn, "create table kept as select 42 as answer")
        idle = await asyncpg.connect(server.dsn, timeout=END_S)  # a backend that must end before a restart
        killed, dsn = server.postmaster_pid, server.dsn
        assert not server.restart_if_dead(), "it lives"

        os.kill(killed, signal.SIGKILL)
        psutil.wait_procs([process for process in _postmasters(data_dir) if process.pid == killed], timeout=END_S)
        assert server.restart_if_dead()

        idle.terminate()
        assert server.postmaster_pid != killed
        assert server.dsn == dsn
        assert await _value(server.dsn, "select answer from kept") == 42
    finally:
        server.close()


@pytest.mark.slow
def test_a_server_that_another_program_starts_at_the_same_time_is_used(
    data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = EmbeddedPostgres.start(data_dir)
    pid = other.postmaster_pid
    process, is_early = Postmaster.process, [True]
    monkeypatch.setattr(Postmaster, "process", lambda it: None if is_early and is_early.pop() else process(it))
    try:
        second = EmbeddedPostgres.start(data_dir)
        try:
            assert is_early == []
            assert second.postmaster_pid == pid
        finally:
            second.close()
    finally:
        other.close()


@pytest.mark.slow
@pytest.mark.parametrize(("kills", "starts"), [(1, True), (3, False)])
def test_a_server_that_is_killed_during_its_start_is_started_again(
    data_dir: Path, monkeypatch: pytest.MonkeyPatch, kills: int, *, starts: bool
) -> None:
    EmbeddedPostgres.start(data_dir).close()
    pg_ctl, left = Postmaster._pg_ctl, ["pg_ctl: could not start server"] * kills

    def start(it: Postmaster, verb: str, limit_s: float, *options: str) -> str | None:
        if verb != "start" or not left:
            return pg_ctl(it, verb, limit_s, *options)
        with it.log.open("a") as log:
            log.write("LOG:  starting PostgreSQL\n")
        return left.pop()

    monkeypatch.setattr(Postmaster, "_pg_ctl", start)

    with nullcontext() if starts else pytest.raises(EmbeddedPostgresError, match="could not start server"):
        EmbeddedPostgres.start(data_dir).close()

    assert left == []


@pytest.mark.slow
async def test_data_is_kept_between_starts(data_dir: Path) -> None:
    server = EmbeddedPostgres.start(data_dir)
    await _value(server.dsn, "create table kept as select 42 as answer")
    server.close()
    assert not server.is_running()

    server = EmbeddedPostgres.start(data_dir)
    try:
        assert await _value(server.dsn, "select answer from kept") == 42
    finally:
        server.close()


@pytest.mark.slow
def test_a_killed_process_is_not_counted(data_dir: Path) -> None:
    server = EmbeddedPostgres.start(data_dir)
    user = _User(data_dir, 18)
    user.process.kill()
    user.process.communicate(timeout=END_S)

    server.close()

    assert not server.is_running()


@pytest.mark.slow
def test_an_initdb_that_outlives_its_killed_process_does_not_remove_the_data_of_the_next_process(
    data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    command, left = Postmaster._command, list[str]()

    def create(it: Postmaster, program: Path, *arguments: str) -> str | None:
        if program.name != "initdb":
            return command(it, program, *arguments)
        left.append(arguments[-1].removeprefix("--pgdata="))
        if len(left) == 1:
            raise KeyboardInterrupt
        error = command(it, program, *arguments)
        shutil.rmtree(left[0], ignore_errors=True)  # an initdb that fails removes its directory
        return error

    monkeypatch.setattr(Postmaster, "_command", create)
    with pytest.raises(KeyboardInterrupt):
        EmbeddedPostgres.start(data_dir)

    EmbeddedPostgres.start(data_dir).close()

    assert list(data_dir.glob("pgdata?*")) == []


@pytest.mark.slow
def test_two_uses_in_one_process_count_as_two(data_dir: Path) -> None:
    first = EmbeddedPostgres.start(data_dir)
    second = EmbeddedPostgres.start(data_dir)
    first.close()
    first.close()
    assert second.is_running()
    assert not first.restart_if_dead(), "a closed object starts no server"

    second.close()

    assert not second.is_running()
    assert not second.restart_if_dead()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["a'b c; d%20&e", "a, b", "long" * 30], ids=["odd", "comma", "long"])
async def test_unusual_paths_work(data_dir: Path, name: str) -> None:
    server = EmbeddedPostgres.start(data_dir / name)
    socket_dir = server._postmaster.socket_dir
    try:
        assert socket_dir.stat().st_mode & 0o077 == 0, "with `trust`, only the server's user may enter the folder"
        assert await _value(server.dsn, "select 1") == 1
    finally:
        server.close()
    assert socket_dir.exists() == (socket_dir.parent == data_dir / name), "variables that are not fields are removed"


@pytest.mark.slow
def test_another_process_with_the_old_pid_is_not_the_server(data_dir: Path) -> None:
    server = EmbeddedPostgres.start(data_dir)
    server.close()
    stranger = subprocess.Popen(["sleep", "60"], user=server._postmaster.user)
    pid_file = data_dir / "pgdata" / "postmaster.pid"
    pid_file.write_text(f"{stranger.pid}\n{data_dir}\n0\n5432\n\n\n0 0\nready   \n")
    try:
        assert not server.is_running()
        server = EmbeddedPostgres.start(data_dir)
        assert server.postmaster_pid != stranger.pid
        server.close()
    finally:
        stranger.kill()
        stranger.wait()


def test_an_unknown_version_is_refused(data_dir: Path) -> None:
    with pytest.raises(EmbeddedPostgresError, match="there is no embedded Postgres 12; the versions are 16 and 18"):
        EmbeddedPostgres.start(data_dir, version=12)


def test_data_of_another_version_is_refused(data_dir: Path) -> None:
    (data_dir / "pgdata").mkdir()
    (data_dir / "pgdata" / "PG_VERSION").write_text("16\n")
    with pytest.raises(EmbeddedPostgresError, match="holds data of Postgres 16, not 18"):
        EmbeddedPostgres.start(data_dir, version=18)


def test_a_path_that_pg_ctl_cannot_take_is_refused(data_dir: Path) -> None:
    with pytest.raises(EmbeddedPostgresError, match=r"its path must not contain '\$'"):
        EmbeddedPostgres.start(data_dir / "$HOME")


def test_a_path_that_is_not_a_directory_is_refused_in_one_line(data_dir: Path) -> None:
    (data_dir / "file").write_text("")
    with pytest.raises(EmbeddedPostgresError, match=r"^can't run Postgres in [^\n]*$"):
        EmbeddedPostgres.start(data_dir / "file")


@pytest.mark.slow
def test_the_server_starts_if_another_process_makes_its_user_at_the_same_time(
    data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    users: list[str] = []

    def ensure(name: str) -> None:
        users.append(name)
        if len(users) == 1:  # The other process has already created the user.
            raise subprocess.CalledProcessError(9, "useradd", stderr=f"useradd: user '{name}' already exists")

    monkeypatch.setattr(postmaster, "ensure_user_exists", ensure)
    monkeypatch.setattr(os, "geteuid", lambda: 0)

    Postmaster(data_dir, VERSIONS[-1]).prepare()

    assert set(users) == {"pgserver"}


def test_a_user_that_can_not_be_made_is_named(data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: str) -> None:
        raise subprocess.CalledProcessError(1, "useradd", stderr="useradd: cannot lock /etc/passwd")

    monkeypatch.setattr(postmaster, "ensure_user_exists", fail)
    monkeypatch.setattr(os, "geteuid", lambda: 0)

    with pytest.raises(EmbeddedPostgresError, match=r"the user 'pgserver' can't be created: .*cannot lock"):
        Postmaster(data_dir, VERSIONS[-1]).prepare()


def test_a_server_that_does_not_start_gives_the_cause_in_one_line(data_dir: Path) -> None:
    EmbeddedPostgres.start(data_dir).close()
    with (data_dir / "pgdata" / "postgresql.conf").open("a") as conf:
        conf.write("shared_buffers = 'plenty'\n")
    with pytest.raises(EmbeddedPostgresError, match=r"doesn't start: [^\n]*contains errors[^\n]*$"):
        EmbeddedPostgres.start(data_dir)


def test_the_cause_is_never_a_refusal_of_an_early_client(data_dir: Path) -> None:
    postmaster = Postmaster(data_dir, 18)
    postmaster.pgdata.mkdir(parents=True)
    postmaster.log.write_text(
        "FATAL:  could not load library\n"
        "FATAL:  the database system is starting up\n"
        "FATAL:  the database system is not yet accepting connections\n"
    )

    assert postmaster._fatal_since(0) == "could not load library"


class _User:
    def __init__(self, data_dir: Path, version: int) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", USER, str(data_dir), str(version)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout is not None
        self.said = self.process.stdout.readline().split()

    def let_go(self) -> None:
        self.process.communicate(timeout=END_S)
        assert self.process.returncode == 0


def _postmasters(data_dir: Path) -> list[psutil.Process]:
    here = str(data_dir)
    running = psutil.process_iter(["name", "cmdline"])
    return [
        process
        for process in running
        if process.info["name"] == "postgres" and any(word.startswith(here) for word in process.info["cmdline"] or [])
    ]


async def _value(dsn: str, query: str) -> object:
    connection = await asyncpg.connect(dsn, timeout=END_S)
    try:
        return await connection.fetchval(query, timeout=END_S)
    finally:
        await connection.close(timeout=END_S)
