"""The commands dump and restore copy a database into a file and back."""

from __future__ import annotations

import asyncio
import os
import re
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from tests.support.cli_asserts import BAD_INPUT, DONE, NOT_DONE
from tests.support.factories import add_timers, query
from tests.support.memory import IN_MEMORY
from tests.support.program import Shell, run

TIMERS = "select count(*)::int from shardclock.timers"
NO_DUMP = b"PGDMP, or not"


@pytest.fixture
def empty(dsn: str) -> Iterator[str]:
    """Name a new database without the schema."""
    name = f"e_{uuid4().hex}"
    asyncio.run(query(dsn, f"create database {name} owner shardclock_owner template template0"))
    yield re.sub(r"/t_[0-9a-f]+\?", f"/{name}?", dsn)
    asyncio.run(query(dsn, f"drop database {name} with (force)"))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Name a new file."""
    return tmp_path / "copy.dump"


def count(dsn: str) -> int:
    """Count the timers."""
    return int(asyncio.run(query(dsn, TIMERS))[0][0])


def test_a_restored_database_has_the_timers_and_is_on_hold(
    dsn: str, empty: str, file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asyncio.run(add_timers(dsn, 7, due="now() + interval '1 day'"))
    asyncio.run(query(dsn, "update shardclock.identity set origin = 'a server that has run a cluster'"))

    dumped = Shell(dsn, capsys)("dump", file, "--json")
    restored = Shell(empty, capsys)("restore", file, "--json")

    assert (dumped.code, dumped.err) == (DONE, "")
    assert dumped.json == {"file": str(file), "bytes": file.stat().st_size, "postgres": 18}
    assert (restored.code, restored.err) == (DONE, "")
    assert restored.json["hold"] is not None
    assert count(empty) == 7
    assert Shell(empty, capsys)("status").code == DONE


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


def test_a_failed_dump_leaves_no_file(
    dsn: str, file: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shardclock_server.cli.backup.DUMP", ["--format=custom", "--schema=absent"])

    done = Shell(dsn, capsys)("dump", file)

    assert done.code == NOT_DONE
    assert done.err.strip() == "shardclock: pg_dump: no matching schemas were found"
    assert list(file.parent.iterdir()) == []


def test_a_database_with_a_schema_is_not_restored_over(
    dsn: str, file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Shell(dsn, capsys)("dump", file)
    asyncio.run(add_timers(dsn, 3))

    done = Shell(dsn, capsys)("restore", file)

    assert done.code == BAD_INPUT
    assert "has a schema shardclock already" in done.err
    assert count(dsn) == 3


@pytest.mark.parametrize("content", [b"", b"select 1;", None], ids=["empty", "SQL", "absent"])
def test_another_file_is_refused(
    content: bytes | None, empty: str, file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if content is not None:
        file.write_bytes(content)

    assert Shell(empty, capsys)("restore", file).code == BAD_INPUT


def test_a_damaged_file_changes_nothing(dsn: str, empty: str, file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Shell(dsn, capsys)("dump", file)
    content = file.read_bytes()
    file.write_bytes(content[: len(content) // 2])

    done = Shell(empty, capsys)("restore", file)

    assert done.code == NOT_DONE
    assert done.err.startswith("shardclock: pg_restore: ")
    assert asyncio.run(query(empty, "select to_regnamespace('shardclock')::text"))[0][0] is None


@pytest.mark.slow
def test_an_embedded_database_is_copied_to_another_directory(file: Path) -> None:
    with (
        tempfile.TemporaryDirectory(prefix="shardclock-test-", dir=IN_MEMORY) as old,
        tempfile.TemporaryDirectory(prefix="shardclock-test-", dir=IN_MEMORY) as new,
    ):
        run("schedule", "--in", "P1D", "--name", "kept", environment={"SHARDCLOCK_DATA_DIR": old})
        dumped = run("dump", str(file), environment={"SHARDCLOCK_DATA_DIR": old})
        restored = run("restore", str(file), environment={"SHARDCLOCK_DATA_DIR": new})
        shown = run("show", "--name", "kept", environment={"SHARDCLOCK_DATA_DIR": new})

    assert [it.code for it in (dumped, restored, shown)] == [DONE] * 3, dumped.err + restored.err + shown.err
