"""The commands dsn and psql find the cluster's database."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

import psutil
import pytest

import shardclock_server.cli.session
from shardclock_server.cli.database import without_password
from shardclock_server.cluster.settings import load_settings
from shardclock_server.embedded.server import EmbeddedPostgres
from tests.support.cli_asserts import BAD_INPUT, DONE, DOWN, NOT_THERE, SECRET
from tests.support.memory import IN_MEMORY
from tests.support.program import Shell, run


def test_the_configured_dsn_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    done = Shell(DOWN, capsys)("dsn")

    assert (done.code, done.out, done.err) == (DONE, f"{DOWN}\n", "")


def test_the_wait_for_a_frozen_postgres_is_reported_before_the_timeout(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shardclock_server.cli.session, "SILENT_S", 0.1)
    monkeypatch.setattr(shardclock_server.cli.session, "TIMEOUT_S", 1.0)
    with socket.create_server(("127.0.0.1", 0)) as frozen:  # the kernel accepts the connection, and no program answers
        port = frozen.getsockname()[1]
        done = Shell(f"postgresql://somebody@127.0.0.1:{port}/timers", capsys)("status")

    told, refused = done.err.splitlines()
    assert told == (f"shardclock: Postgres at 127.0.0.1:{port} has not answered for 0.1 s; the command waits up to 1 s")
    assert "Postgres does not answer" in refused
    assert done.code == NOT_THERE


@pytest.mark.slow
def test_without_a_dsn_each_command_finds_the_same_embedded_postgres() -> None:
    with tempfile.TemporaryDirectory(prefix="shardclock-test-", dir=IN_MEMORY) as place:
        environment = {"SHARDCLOCK_DATA_DIR": place}
        first = run("schedule", "--in", "PT1H", "--name", "kept", environment=environment)
        stopped = run("dsn", environment=environment)
        postgres = EmbeddedPostgres.start(Path(place))
        try:
            running = run("dsn", environment=environment)
        finally:
            postgres.close()
        # `shardclock psql` starts the embedded Postgres if it does not run, and stops it when psql has ended.
        asked = run("psql", "-Atc", "select name from shardclock.timers", environment=environment)
        assert first.err.startswith(f"shardclock: the embedded Postgres at {place} is new")
        assert "; SHARDCLOCK_DSN or SHARDCLOCK_DATA_DIR names another" in first.err
        assert (first.code, stopped.code, stopped.out, running.err) == (DONE, DONE, running.out, "")
        assert "is not running: start it with `shardclock up`" in stopped.err
        assert running.out == f"{postgres.dsn}\n"
        assert (asked.code, asked.out, asked.err) == (DONE, "kept\n", "")
        assert not [it for it in psutil.process_iter(["cmdline"]) if place in " ".join(it.info["cmdline"] or [])]


@pytest.mark.parametrize("words", ["status", "psql -l", "gateway", "exporter"])
def test_a_command_that_only_reads_or_serves_creates_no_database(words: str, tmp_path: Path) -> None:
    place, socket_path = tmp_path / "none", tmp_path / "metrics"
    done = run(
        *words.split(),
        environment={"SHARDCLOCK_DATA_DIR": str(place), "SHARDCLOCK_METRICS_SOCKET": str(socket_path)},
    )
    assert (done.code, done.out, place.exists()) == (BAD_INPUT, "", False)
    assert f"{place} holds no database: `shardclock up` makes one; SHARDCLOCK_DSN or" in done.err


@pytest.mark.slow
def test_psql_runs_its_arguments_and_its_input_on_the_configured_database(dsn: str) -> None:
    environment = {"SHARDCLOCK_DSN": dsn}

    done = run("psql", "-At", "-c", "select current_database()", environment=environment)
    piped = run("psql", "-At", environment=environment, stdin=b"select 1 + 1;\n")
    wrong = run("psql", "-c", "select nonsense", environment=environment)

    assert (done.code, done.out.strip() in dsn, done.err) == (DONE, True, "")
    assert (piped.code, piped.out) == (DONE, "2\n")
    assert (wrong.code, "nonsense" in wrong.err) == (1, True)


def test_psql_keeps_the_password_out_of_its_command_line(monkeypatch: pytest.MonkeyPatch) -> None:
    said = "import os, sys; print(sys.argv[1:], os.environ['PGPASSWORD'])"
    with tempfile.TemporaryDirectory(prefix="shardclock-test-", dir=IN_MEMORY) as place:
        program = Path(place) / "psql"
        program.write_text(f"#!{sys.executable}\n{said}\n")
        program.chmod(0o755)
        main = (
            "from shardclock_server import cli; from shardclock_server.cli import database; "
            "database.bundled = lambda name: None; cli.main()"
        )
        done = subprocess.run(
            [sys.executable, "-c", main, "psql", "--no-psqlrc"],
            capture_output=True,
            text=True,
            env=os.environ | {"PATH": place, "SHARDCLOCK_DSN": DOWN},
            check=False,
        )

    assert done.stdout == f"['postgresql://user@127.0.0.1:1/shardclock', '--no-psqlrc'] {SECRET}\n", done


def test_a_missing_psql_is_reported_with_the_package_to_install(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shardclock_server.cli.database.bundled", lambda _: None)

    done = Shell(DOWN, capsys)("psql", PATH="/nowhere")

    assert (done.code, done.out) == (NOT_THERE, "")
    assert "psql was found neither" in done.err


@pytest.mark.parametrize(
    ("dsn", "bare", "password"),
    [
        ("postgresql://u:p%40ss@h:5432/d", "postgresql://u@h:5432/d", "p@ss"),
        ("postgres://u:p@h1:1,h2:2/d?sslmode=require", "postgres://u@h1:1,h2:2/d?sslmode=require", "p"),
        ("postgresql:///d?host=/tmp/x&password=p%20q", "postgresql:///d?host=/tmp/x", "p q"),
        ("postgresql://u@[::1]/d", "postgresql://u@[::1]/d", None),
        ("postgresql://h/d", "postgresql://h/d", None),
        ("postgresql://u:@/d?host=/a%20b&port=5432", "postgresql://u@/d?host=/a%20b&port=5432", None),
    ],
)  # fmt: skip
def test_a_dsn_is_split_from_its_password(dsn: str, bare: str, password: str | None) -> None:
    assert without_password(dsn) == (bare, password)


def test_the_embedded_postgres_s_dsn_does_not_depend_on_its_state() -> None:
    settings = load_settings(data_dir=Path("/srv/x"))

    dsn = EmbeddedPostgres.at(settings.data_dir).dsn
    assert dsn.startswith("postgresql://postgres:@/postgres?host=/srv/x/pgdata&port=5432&")
