"""Test the embedded Postgres for a user without a name, and the causes in its error messages."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from shardclock_server.embedded.reasons import cause_in, fatal_in
from shardclock_server.embedded.server import EmbeddedPostgres, EmbeddedPostgresError
from tests.support import ROOT
from tests.support.memory import IN_MEMORY

END_S = 60
UNNAMED = 54_321  # a number without a user on this machine
USE = (
    "import sys; from pathlib import Path\n"
    "from shardclock_server.embedded.server import EmbeddedPostgres, EmbeddedPostgresError\n"
    "try: EmbeddedPostgres.start(Path(sys.argv[1]), version=int(sys.argv[2])).close()\n"
    "except EmbeddedPostgresError as error: sys.exit(str(error))\n"
)
# The process changes its user after the imports, because only root may be able to read Python's files.
BECOME_UNNAMED = (
    "import shardclock_server.embedded.server, os, shutil\n"
    f"os.setgroups([]); os.setresgid(*[{UNNAMED}] * 3); os.setresuid(*[{UNNAMED}] * 3)"
)
DISK_FULL = """\
The files belonging to this database system will be owned by user "pgserver".
creating configuration files ... ok
running bootstrap script ... 2026-11-29 20:00:00.000 UTC [7] FATAL:  could not write to file "base/1/1255": No space left on device
child process exited with exit code 1
initdb: removing contents of data directory "/d/pgdata.new"
"""  # noqa: E501
INODES_FULL = """\
running bootstrap script ... 2026-11-29 20:00:00 UTC [7] FATAL:  could not create file "base/1/2704": No space left on device
2026-11-29 20:00:00 UTC [7] PANIC:  cannot abort transaction 1, it was already committed
child process was terminated by signal 6: Aborted
"""  # noqa: E501
NO_SOCKET = """\
2026-11-29 20:00:00 UTC [7] LOG:  could not bind Unix address "/d/.s.PGSQL.5432": Address already in use
2026-11-29 20:00:00 UTC [7] HINT:  Is another postmaster already running on port 5432?
2026-11-29 20:00:00 UTC [7] WARNING:  could not create Unix-domain socket in directory "/d"
2026-11-29 20:00:00 UTC [7] FATAL:  could not create any Unix-domain sockets
"""


@pytest.fixture
def data_dir() -> Iterator[Path]:
    """Make a directory that any user may enter and write to."""
    with tempfile.TemporaryDirectory(prefix="shardclock-test-", dir=IN_MEMORY) as place:
        Path(place).chmod(0o777)
        yield Path(place) / "d"


@pytest.mark.parametrize(
    ("words", "cause"),
    [
        (DISK_FULL, 'could not write to file "base/1/1255": No space left on device'),
        (INODES_FULL, 'could not create file "base/1/2704": No space left on device'),
        ("initdb: error: could not access /d: Permission denied\n", "could not access /d: Permission denied"),
        ("pg_ctl: could not open log file\n", "pg_ctl: could not open log file"),
        ("x [7] PANIC:  could not write to pg_wal/x: No space left\n", "could not write to pg_wal/x: No space left"),
        ("", ""),
    ],
)  # fmt: skip
def test_the_cause_is_found_before_later_lines(words: str, cause: str) -> None:
    assert cause_in(words) == cause


def test_the_failure_of_a_socket_has_the_error_of_the_kernel() -> None:
    assert fatal_in(NO_SOCKET) == 'could not bind Unix address "/d/.s.PGSQL.5432": Address already in use'


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0, reason="only root may become another user")
@pytest.mark.parametrize("version", [16, 18])
def test_a_user_without_a_name_creates_and_uses_a_database(data_dir: Path, version: int) -> None:
    for _ in ("made", "used again"):
        done = subprocess.run(
            [sys.executable, "-c", f"{BECOME_UNNAMED}\n{USE}", str(data_dir), str(version)],
            cwd=ROOT,
            env={"PATH": os.environ["PATH"]},
            capture_output=True,
            text=True,
            timeout=END_S,
            check=False,
        )
        assert (done.returncode, done.stderr) == (0, "")

    assert (data_dir / "pgdata" / "PG_VERSION").read_text().strip() == str(version)
    assert not (data_dir / "programs.new").exists()


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0, reason="only root may become another user")
@pytest.mark.parametrize("umask", [0, 0o777])
def test_the_permissions_of_a_database_do_not_depend_on_the_umask(data_dir: Path, umask: int) -> None:
    place = data_dir / "parent" / "d"
    for _ in ("made", "used again"):
        done = subprocess.run(
            [sys.executable, "-c", f"{BECOME_UNNAMED}\nos.umask({umask})\n{USE}", str(place), "18"],
            cwd=ROOT,
            env={"PATH": os.environ["PATH"]},
            capture_output=True,
            text=True,
            timeout=END_S,
            check=False,
        )
        assert (done.returncode, done.stderr) == (0, "")

    found = {it.name: stat.S_IMODE(it.stat().st_mode) for it in (place.parent, place, *place.iterdir())}
    assert found == {"parent": 0o755, "d": 0o700, "pgdata": 0o700, "server.lock": 0o600, "users.lock": 0o600}


@pytest.mark.slow
def test_the_error_of_a_full_disk_names_the_file(data_dir: Path) -> None:
    limited = f"import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, 1_000_000))\n{USE}"

    done = subprocess.run(
        [sys.executable, "-c", limited, str(data_dir), "18"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=END_S,
        check=False,
    )

    assert done.returncode == 1
    assert "File too large" in done.stderr
    assert done.stderr.startswith(f"can't create a database in {data_dir}: could not write to file")


def _made(data_dir: Path) -> Path:
    EmbeddedPostgres.start(data_dir).close()
    return data_dir / "pgdata"


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give files away")
def test_data_of_another_user_are_refused_with_both_users(data_dir: Path) -> None:
    os.chown(_made(data_dir), UNNAMED, -1)

    with pytest.raises(EmbeddedPostgresError, match=rf"belongs to user {UNNAMED}, and Postgres would run as user \d+$"):
        EmbeddedPostgres.start(data_dir)


@pytest.mark.slow
def test_the_error_names_a_socket_path_that_is_taken(data_dir: Path) -> None:
    (_made(data_dir) / ".s.PGSQL.5432" / "x").mkdir(parents=True)

    with pytest.raises(EmbeddedPostgresError, match=r"doesn't start: could not bind Unix address .*: Address already"):
        EmbeddedPostgres.start(data_dir)


@pytest.mark.parametrize("text", ["", "eighteen"])
def test_data_without_a_version_are_refused_as_damaged(data_dir: Path, text: str) -> None:
    (data_dir / "pgdata").mkdir(parents=True)
    (data_dir / "pgdata" / "PG_VERSION").write_text(text)

    with pytest.raises(EmbeddedPostgresError, match=r"are damaged: .*PG_VERSION contains no version"):
        EmbeddedPostgres.start(data_dir)


@pytest.mark.parametrize(
    ("name", "reason"),
    [("/".join(["a" * 200] * 5), "too long for Postgres: at most 940"), ("\udcff", "not valid UTF-8")],
    ids=["long", "bytes"],
)
def test_a_path_that_postgres_cannot_take_is_refused(data_dir: Path, name: str, reason: str) -> None:
    with pytest.raises(EmbeddedPostgresError, match=reason):
        EmbeddedPostgres.start(data_dir / name)
