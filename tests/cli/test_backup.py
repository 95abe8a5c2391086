"""The commands dump and restore copy a database into a file and back."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import stat
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote, urlsplit
from uuid import uuid4

import pytest

from shardclock_server.cli import INTERRUPTED
from tests.support.cli_asserts import BAD_INPUT, DONE, NOT_DONE
from tests.support.factories import BOUND_S, add_timers, sql
from tests.support.memory import IN_MEMORY
from tests.support.program import PROGRAM, Shell, run, until
from tests.support.roles import as_role

HOSTILE = (
    "default_transaction_read_only = on",
    "default_transaction_isolation = serializable",
    "standard_conforming_strings = off",
    "statement_timeout = '1ms'",
    "idle_session_timeout = '1ms'",
)
HOSTILE_OPTIONS = {"default_transaction_read_only": "on", "statement_timeout": "1ms"}
TIMERS = "select count(*)::int from shardclock.timers"
LOCK = b"begin; lock table shardclock.timers in access exclusive mode;\n"
LOCKED = "select from pg_locks where mode = 'AccessExclusiveLock' and relation = 'shardclock.timers'::regclass"
WAITS = "select from pg_stat_activity where application_name = 'pg_dump' and wait_event_type = 'Lock'"
DUMPS = "select from pg_stat_activity where application_name = 'pg_dump'"
GRANT = "do $$ begin execute format('grant create on database %I to shardclock_owner', current_database()); end $$"
XMIN = "select distinct xmin::text from shardclock.{}"


@pytest.fixture
def empty(dsn: str) -> Iterator[str]:
    """Name a new database without the schema."""
    name = f"e_{uuid4().hex}"
    sql(dsn, f"create database {name} owner shardclock_owner template template0")
    yield re.sub(r"/t_[0-9a-f]+\?", f"/{name}?", dsn)
    sql(dsn, f"drop database {name} with (force)")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Name a new file."""
    return tmp_path / "copy.dump"


def count(dsn: str) -> int:
    """Count the timers."""
    return int(sql(dsn, TIMERS)[0][0])


def test_a_restored_database_has_the_timers_and_is_on_hold(
    dsn: str, empty: str, file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asyncio.run(add_timers(dsn, 7, due="now() + interval '1 day'"))
    sql(dsn, "update shardclock.identity set origin = 'a server that has run a cluster'")

    dumped = Shell(dsn, capsys)("dump", file, "--json")
    restored = Shell(empty, capsys)("restore", file, "--json")

    assert (dumped.code, dumped.err) == (DONE, "")
    assert dumped.json == {"file": str(file), "bytes": file.stat().st_size, "postgres": 18}
    assert (restored.code, restored.err) == (DONE, "")
    assert restored.json["hold"] is not None
    assert count(empty) == 7
    assert Shell(empty, capsys)("status").code == DONE


def test_a_database_that_is_restored_in_place_is_on_hold_from_the_transaction_of_the_restore(
    dsn: str, file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shell = Shell(dsn, capsys)
    asyncio.run(add_timers(dsn, 2))
    sql(dsn, "update shardclock.identity set origin = shardclock.origin()")
    shell("dump", file)
    sql(dsn, "drop schema shardclock cascade")
    sql(dsn, GRANT)

    restored = shell("restore", file, "--json")

    assert (restored.code, restored.err) == (DONE, "")
    assert restored.json["hold"] == "an operator said: restored from a dump"
    assert sql(dsn, XMIN.format("identity")) == sql(dsn, XMIN.format("timers"))
    shell("migrate", "--roles")
    assert shell("release", "--yes").code == DONE
    assert shell("status", "--json").json["hold"] is None


def test_settings_of_the_database_do_not_change_a_copy(
    dsn: str, empty: str, file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asyncio.run(add_timers(dsn, 3, due="now() + interval '1 day'"))
    assert Shell(dsn, capsys)("dump", file).code == DONE
    database = urlsplit(empty).path.removeprefix("/")
    for setting in HOSTILE:
        sql(dsn, f"alter database {database} set {setting}")

    restored = Shell(empty, capsys)("restore", file)
    copied = Shell(empty, capsys)("dump", file.with_name("second"))

    sql(dsn, f"alter database {database} reset all")
    assert (restored.code, copied.code) == (DONE, DONE), restored.err + copied.err
    assert count(empty) == 3


def test_settings_in_the_dsn_do_not_prevent_a_dump_or_a_restore(
    dsn: str, empty: str, file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asyncio.run(add_timers(dsn, 3, due="now() + interval '1 day'"))
    options = "&options=" + quote(" ".join(f"-c {name}={value}" for name, value in HOSTILE_OPTIONS.items()))

    dumped = Shell(dsn + options, capsys)("dump", file)
    restored = Shell(empty + options, capsys)("restore", file)

    assert (dumped.code, restored.code) == (DONE, DONE), dumped.err + restored.err
    assert count(empty) == 3


def test_a_restored_database_keeps_the_hold_of_the_dump(
    dsn: str, empty: str, file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Shell(dsn, capsys)("hold", "a move")
    Shell(dsn, capsys)("dump", file)

    assert Shell(empty, capsys)("restore", file, "--json").json["hold"] == "an operator said: a move"


def test_only_the_owner_may_read_the_file(dsn: str, file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = os.umask(0)
    try:
        Shell(dsn, capsys)("dump", file)
    finally:
        os.umask(before)

    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_an_existing_file_is_kept(dsn: str, file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file.write_text("kept")

    done = Shell(dsn, capsys)("dump", file)

    assert (done.code, file.read_text()) == (BAD_INPUT, "kept")
    assert "exists: name a new file" in done.err


@pytest.mark.parametrize("kind", ["device", "pipe"])
def test_a_device_or_a_pipe_is_refused_with_the_way_out(
    dsn: str, file: Path, kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    place = Path("/dev/full") if kind == "device" else file
    if kind == "pipe":
        os.mkfifo(file)

    done = Shell(dsn, capsys)("dump", place)

    assert done.code == BAD_INPUT
    assert done.err.endswith(" is no regular file: name a new file, or redirect the output of `shardclock dump -`\n")


def test_a_failed_dump_leaves_no_file(
    dsn: str, file: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shardclock_server.cli.backup.DUMP", ["--format=custom", "--schema=absent"])

    done = Shell(dsn, capsys)("dump", file)

    assert done.code == NOT_DONE
    assert done.err.strip() == (
        "shardclock: pg_dump: no matching schemas were found; nothing was changed: correct the cause, and repeat the"
        " dump"
    )
    assert list(file.parent.iterdir()) == []


def test_a_dump_on_a_full_disk_reports_the_full_disk_and_leaves_no_file(dsn: str, file: Path) -> None:
    done = subprocess.run(
        ["bash", "-c", 'ulimit -f 1; "$@"', "bash", *PROGRAM, "dump", str(file), "--json"],
        capture_output=True,
        env=os.environ | {"SHARDCLOCK_DSN": as_role(dsn, "owner")},
        timeout=2 * BOUND_S,
        check=False,
    )
    (line,) = done.stderr.decode().splitlines()
    assert done.returncode == NOT_DONE
    assert f"{file} can't be written: File too large; free some space, or name a file on another disk" in line
    assert list(file.parent.iterdir()) == []


def test_a_dump_on_a_full_standard_output_is_not_done(dsn: str) -> None:
    done = subprocess.run(
        ["bash", "-c", '"$@" > /dev/full', "bash", *PROGRAM, "dump", "-"],
        capture_output=True,
        env=os.environ | {"SHARDCLOCK_DSN": as_role(dsn, "owner")},
        timeout=2 * BOUND_S,
        check=False,
    )
    assert done.returncode == NOT_DONE
    assert done.stderr.decode() == (
        "shardclock: standard output can't be written: No space left on device; the dump is incomplete: free some"
        " space, and repeat the dump\n"
    )


def test_a_dump_by_a_role_without_the_right_names_the_role_that_has_it(dsn: str, file: Path) -> None:
    done = run("dump", str(file), environment={"SHARDCLOCK_DSN": as_role(dsn, "reader")})

    assert done.code == NOT_DONE
    assert done.err.endswith("nothing was changed: use the role that owns the schema, or a superuser\n")


def test_the_file_of_a_killed_dump_is_reported_with_the_way_out(
    dsn: str, file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    part = file.with_name("copy.dump.part")
    part.write_text("begun")

    done = Shell(dsn, capsys)("dump", file)

    assert (done.code, part.read_text()) == (BAD_INPUT, "begun")
    assert f"{part} exists: another dump is writing this file, or was killed; remove the file" in done.err


@contextmanager
def locked(dsn: str) -> Iterator[None]:
    """Lock the table of timers in another session."""
    words = [*PROGRAM, "psql", "--quiet", "--no-psqlrc"]
    environment = os.environ | {"SHARDCLOCK_DSN": as_role(dsn, "superuser")}
    with subprocess.Popen(words, stdin=subprocess.PIPE, env=environment) as locker:
        assert locker.stdin is not None
        locker.stdin.write(LOCK)
        locker.stdin.flush()
        until(lambda: sql(dsn, LOCKED), "the lock")
        yield
        locker.stdin.close()  # the end of psql also ends the transaction


def test_an_interrupted_dump_leaves_no_file_and_no_program(dsn: str, file: Path) -> None:
    environment = os.environ | {"SHARDCLOCK_DSN": as_role(dsn, "owner")}
    with locked(dsn), subprocess.Popen([*PROGRAM, "dump", str(file)], env=environment) as dump:
        until(lambda: sql(dsn, WAITS), "pg_dump to wait for the lock")
        dump.send_signal(signal.SIGTERM)
        assert dump.wait(BOUND_S) == INTERRUPTED
    assert list(file.parent.iterdir()) == []
    until(lambda: not sql(dsn, DUMPS), "the end of pg_dump")


def test_a_dump_waits_for_a_locked_table_for_a_limited_time(
    dsn: str, file: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shardclock_server.cli.backup.LOCK_WAIT_S", 0.1)
    with locked(dsn):
        done = Shell(dsn, capsys)("dump", file)

    assert done.code == NOT_DONE
    assert done.err.strip() == (
        "shardclock: pg_dump: a table of shardclock was locked by another session for 0.1 s: find the session in"
        " pg_locks (mode AccessExclusiveLock), end it, and repeat the dump"
    )


def test_a_database_with_a_schema_is_not_restored_over(
    dsn: str, file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Shell(dsn, capsys)("dump", file)
    asyncio.run(add_timers(dsn, 3))

    done = Shell(dsn, capsys)("restore", file)

    assert done.code == BAD_INPUT
    assert "already has a schema shardclock" in done.err
    assert count(dsn) == 3


def test_another_file_is_refused(empty: str, file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert Shell(empty, capsys)("restore", file).code == BAD_INPUT
    for content in (b"", b"select 1;"):
        file.write_bytes(content)
        assert Shell(empty, capsys)("restore", file).code == BAD_INPUT


def test_a_damaged_file_changes_nothing(dsn: str, empty: str, file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Shell(dsn, capsys)("dump", file)
    content = file.read_bytes()
    file.write_bytes(content[: len(content) // 2])

    done = Shell(empty, capsys)("restore", file)

    assert done.code == NOT_DONE
    assert done.err.startswith("shardclock: pg_restore: ")
    assert done.err.endswith(
        "nothing was changed: the file is truncated, damaged or no dump: copy it again, or restore another dump\n"
    )
    assert sql(empty, "select to_regnamespace('shardclock')::text")[0][0] is None


def test_a_restore_without_rights_names_the_server_s_cause(
    dsn: str, file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Shell(dsn, capsys)("dump", file)
    sql(dsn, "drop schema shardclock cascade")

    done = Shell(dsn, capsys)("restore", file)

    assert done.code == NOT_DONE
    assert done.err.startswith("shardclock: psql: permission denied for database")
    assert "use the role that owns the database, or grant the right to create a schema in it" in done.err


def test_a_restore_without_its_hold_changes_nothing(
    dsn: str, empty: str, file: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    sql(dsn, "create schema other create table other.t (n integer)")
    sql(dsn, "grant usage on schema other to public")
    sql(dsn, "grant select on other.t to public")
    monkeypatch.setattr("shardclock_server.cli.backup.DUMP", ["--format=custom", "--schema=other"])
    Shell(dsn, capsys)("dump", file)

    done = Shell(empty, capsys)("restore", file)

    assert done.code == NOT_DONE
    assert done.err == (
        'shardclock: psql: relation "shardclock.identity" does not exist; nothing was changed: the file has no schema'
        " shardclock: name a file of `shardclock dump`\n"
    )
    assert sql(empty, "select to_regnamespace('other')::text")[0][0] is None


def test_a_copy_goes_through_standard_output_and_input(dsn: str, empty: str, tmp_path: Path) -> None:
    asyncio.run(add_timers(dsn, 7, due="now() + interval '1 day'"))

    dumped = subprocess.run(
        [*PROGRAM, "dump", "-"],
        capture_output=True,
        env=os.environ | {"SHARDCLOCK_DSN": as_role(dsn, "owner")},
        timeout=2 * BOUND_S,
        cwd=tmp_path,
        check=False,
    )
    restored = run("restore", "-", stdin=dumped.stdout, environment={"SHARDCLOCK_DSN": as_role(empty, "owner")})

    assert dumped.stdout.startswith(b"PGDMP")
    assert (dumped.returncode, restored.code) == (DONE, DONE), dumped.stderr.decode() + restored.err
    assert count(empty) == 7
    assert list(tmp_path.iterdir()) == []


def test_a_copy_on_standard_output_is_not_mixed_with_json(dsn: str, capsys: pytest.CaptureFixture[str]) -> None:
    done = Shell(dsn, capsys)("dump", "-", "--json")

    assert (done.code, done.out) == (BAD_INPUT, "")
    assert "--json and - both write to standard output: leave one of them out" in done.err


@pytest.mark.slow
def test_an_embedded_database_is_copied_to_another_directory_and_not_migrated_by_the_dump(file: Path) -> None:
    with (
        tempfile.TemporaryDirectory(prefix="shardclock-test-", dir=IN_MEMORY) as old,
        tempfile.TemporaryDirectory(prefix="shardclock-test-", dir=IN_MEMORY) as new,
    ):
        run("schedule", "--in", "P1D", "--name", "kept", environment={"SHARDCLOCK_DATA_DIR": old})
        edit = "delete from shardclock.functions where name = 'origin'"
        run("psql", "-c", edit, environment={"SHARDCLOCK_DATA_DIR": old})
        dumped = run("dump", str(file), environment={"SHARDCLOCK_DATA_DIR": old})
        doctor = run("doctor", "--json", environment={"SHARDCLOCK_DATA_DIR": old})
        restored = run("restore", str(file), environment={"SHARDCLOCK_DATA_DIR": new})
        shown = run("show", "--name", "kept", environment={"SHARDCLOCK_DATA_DIR": new})
    assert [it.code for it in (dumped, restored, shown)] == [DONE] * 3, dumped.err + restored.err + shown.err
    assert {it["check"]: it["level"] for it in doctor.json["findings"]}["schema"] == "fault"


def test_a_directory_without_a_database_is_not_dumped(tmp_path: Path, file: Path) -> None:
    place = tmp_path / "none"

    done = run("dump", str(file), environment={"SHARDCLOCK_DATA_DIR": str(place)})

    assert (done.code, place.exists()) == (BAD_INPUT, False)
    assert f"{place} holds no database: `shardclock up` makes one; " in done.err
