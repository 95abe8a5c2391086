"""The commands that copy the database into a file and back: dump, restore.

The commands run `pg_dump`, `pg_restore` and `psql` of the server's version; the embedded Postgres has these programs.
"""

import asyncio
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from io import FileIO
from pathlib import Path
from typing import IO, Annotated

import typer
from rich.filesize import decimal
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn

from shardclock_server.cli.database import DatabaseAccess, access_of, without_options
from shardclock_server.cli.output import DONE, Json, err, is_terminal, print_json, print_line, print_note
from shardclock_server.cli.postgres_programs import ProgramFailed, ended_by_signal, pieces, program_of, running
from shardclock_server.cli.streams import AnswerLost, discard_answer
from shardclock_server.cluster.database import Database, open_database, require_data
from shardclock_server.cluster.settings import Settings, load_settings
from shardclock_server.service.hold import read_hold
from shardclock_server.sql.cluster.identity import hold_of_restore
from shardclock_server.sql.cluster.server import PostgresState, read_server
from shardclock_server.sql.dsn import Dsn
from shardclock_server.sql.migrate import migrate
from shardclock_server.sql.session import Session
from shardclock_server.sql.session_settings import options_of_programs
from shardclock_server.timers.refusal import Refusal, shortened

STDIN, STREAM = 0, Path("-")  # The argument `-` stands for standard output or input.
MAGIC = b"PGDMP"  # The first bytes of each file in pg_dump's custom format.
OWNER_ONLY = 0o600  # Only the owner may read the file, because it contains payloads and keys.
LOCK_WAIT_S = 60.0  # Longer than a migration holds a lock. The lock of an idle session may never end.
LOCK_TIMEOUT = "canceling statement due to"  # The text in pg_dump's error message after --lock-wait-timeout.
# Pairs of a part of an error message and the way out. The last entry is for all other errors.
DUMP_WAYS = (
    ("permission denied", "use the role that owns the schema, or a superuser"),
    ("row-level security", "use the role that owns the schema, or a superuser"),
    ("", "correct the cause, and repeat the dump"),
)
RESTORE_WAYS = (
    ("permission denied", "use the role that owns the database, or grant the right to create a schema in it"),
    ("No space left on device", "free some space on the server, and repeat the restore"),
    ("unsupported version", "the file is from a later pg_dump, so restore it with the programs of that version"),
    ('"shardclock.identity" does not exist', "the file has no schema shardclock: name a file of `shardclock dump`"),
    ("pg_restore: ", "the file is truncated, damaged or no dump: copy it again, or restore another dump"),
    ("", "correct the cause, and repeat the restore"),
)
DUMP = ["--format=custom", "--schema=shardclock", "--no-owner", "--no-privileges"]
RESTORE = ["--no-owner", "--no-privileges", "--file=-"]
PSQL = ["--no-psqlrc", "--quiet", "--set=ON_ERROR_STOP=1", f"--output={os.devnull}"]


class FileNotWritten(Exception):
    """The command could not write the whole file. The message has the system's reason and a way out."""


def dump(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="The new file, or - for standard output.", show_default=False)
    ],
    as_json: Json = False,
) -> int:
    """Write a consistent copy of the schema into a new file; the cluster may run during the dump."""
    if file == STREAM and (as_json or is_terminal()):
        raise Refusal(
            "--json and - both write to standard output: leave one of them out"
            if as_json
            else "a dump is binary: redirect standard output, or name a file"
        )
    if file != STREAM and file.exists():
        raise Refusal(
            f"{shortened(str(file))} exists: name a new file"
            if file.is_file() or file.is_dir()
            else f"{shortened(str(file))} is no regular file: name a new file, or redirect the output of"
            " `shardclock dump -`"
        )
    settings = load_settings()
    require_data(settings)
    # Don't migrate the schema, so that the former release can restore a dump that was taken before an upgrade.
    with ended_by_signal(), open_database(settings, migrates=False) as database:
        server = asyncio.run(_read_server(database.dsn, "dump"))
        if not server.has_schema:
            raise Refusal(f"{database.place} has no schema shardclock: set SHARDCLOCK_DSN to another database")
        size = _write(database, file, server.major)
    if as_json:
        print_json({"file": str(file), "bytes": size, "postgres": server.major})
    else:
        (print_note if file == STREAM else print_line)(
            f"{file}: {decimal(size)}; restore it with `shardclock restore` into a new database"
        )
    return DONE


def restore(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="The dump file, or - for standard input.", show_default=False)
    ],
    as_json: Json = False,
) -> int:
    """Restore a dump file into a database without the schema; no timer fires until `shardclock release`."""
    with _opened(file) as source:
        settings = load_settings()
        with ended_by_signal(), open_database(settings, migrates=False) as database:
            server = asyncio.run(_read_server(database.dsn, "restore"))
            if server.has_schema:
                raise Refusal(
                    f"{database.place} already has a schema shardclock: choose another database with SHARDCLOCK_DSN or"
                    " SHARDCLOCK_DATA_DIR"
                )
            _read(source, database, server.major)
            hold = asyncio.run(_migrate(database.dsn, settings))
            if as_json:
                print_json({"file": str(file), "database": database.place, "hold": hold})
            else:
                print_line(f"{database.place} is restored from {file}")
                print_note(
                    f"the database is on hold: {hold}; cancel the timers that have fired since the dump, and then run"
                    " `shardclock release --yes`"
                )
    return DONE


async def _read_server(dsn: Dsn, verb: str) -> PostgresState:
    async with Session(dsn, application=f"shardclock {verb}") as session:
        return await read_server(session)


async def _migrate(dsn: Dsn, settings: Settings) -> str | None:
    """Migrate the restored schema to this release; return the reason why the database is on hold."""
    await migrate(dsn)
    async with Session(dsn, application="shardclock restore") as session:
        hold = await read_hold(session, settings.identity or "", silent_s=settings.coordinator.silent_s)
    return hold.why if hold else None


def _opened(file: Path) -> FileIO:
    """Open a dump, and check its first bytes. For a dump from a pipe, only pg_restore checks the format."""
    try:
        source = FileIO(STDIN, closefd=False) if file == STREAM else FileIO(file)
    except OSError as error:
        raise Refusal(f"{shortened(str(file))} can't be read: {error.strerror}") from None
    if source.seekable():
        if source.read(len(MAGIC)) != MAGIC:
            source.close()
            raise Refusal(
                f"{shortened(str(file))} is neither a file of `shardclock dump` nor of `pg_dump --format=custom`"
            )
        source.seek(0)
    return source


def _write(database: Database, file: Path, server: int) -> int:
    """Dump the schema into a temporary file, rename the complete file, and return its size in bytes."""
    access = _access_of(database)
    wait = f"--lock-wait-timeout={LOCK_WAIT_S:g}s"
    words = [program_of("pg_dump", server), *DUMP, wait, f"--dbname={access.dsn}"]
    size = 0
    with _target(file) as target, _counted("dump", None) as count:
        try:
            with running(words, access, stdout=subprocess.PIPE) as program:
                assert program.stdout is not None
                for piece in pieces(program.stdout):
                    target.write(piece)
                    size += len(piece)
                    count(size)
        except ProgramFailed as failed:
            if LOCK_TIMEOUT not in str(failed):
                raise _with_way_out(failed, DUMP_WAYS) from None
            raise ProgramFailed(
                f"pg_dump: a table of shardclock was locked by another session for {LOCK_WAIT_S:g} s: find the session"
                " in pg_locks (mode AccessExclusiveLock), end it, and repeat the dump"
            ) from None
    return size


def _read(source: FileIO, database: Database, server: int) -> None:
    """Restore a file and put the database on hold, in one transaction.

    pg_restore can't add a statement to its transaction. Therefore psql executes the output of pg_restore, and then the
    statement that sets the hold.
    """
    access = _access_of(database)
    reading = [program_of("pg_restore", server), *RESTORE]
    writing = [program_of("psql", server), *PSQL, access.dsn]
    size = os.fstat(source.fileno()).st_size if source.seekable() else None
    with (
        _explained(),
        _counted("restore", size) as count,
        running(reading, access, stdin=source, stdout=subprocess.PIPE) as reader,
        running(writing, access, stdin=subprocess.PIPE) as writer,
    ):
        assert reader.stdout is not None
        assert writer.stdin is not None
        writer.stdin.write(b"begin;\n")
        for piece in pieces(reader.stdout):
            writer.stdin.write(piece)
            if size is not None:
                # The file position shows the progress, because pg_restore reads from the same open file.
                count(source.tell())
        if reader.wait() == 0:  # Without the commit, psql rolls back all changes.
            writer.stdin.write(f"{hold_of_restore()};\ncommit;\n".encode())


@contextmanager
def _explained() -> Iterator[None]:
    try:
        yield
    except ProgramFailed as failed:
        raise _with_way_out(failed, RESTORE_WAYS) from None


def _with_way_out(failed: ProgramFailed, ways: Sequence[tuple[str, str]]) -> ProgramFailed:
    return ProgramFailed(f"{failed}; nothing was changed: {next(way for text, way in ways if text in str(failed))}")


def _access_of(database: Database) -> DatabaseAccess:
    """Return the database access with fixed session settings. The database's own settings could prevent a dump."""
    access = access_of(database)
    # libpq ignores PGOPTIONS if the DSN has options. If a setting is given twice, Postgres uses the last value.
    dsn, of_dsn = without_options(access.dsn)
    return DatabaseAccess(dsn, {**access.environment, "PGOPTIONS": f"{of_dsn} {options_of_programs()}".lstrip()})


@contextmanager
def _target(file: Path) -> Iterator[IO[bytes]]:
    """Open standard output, or create a file that only its owner may read; remove the file if the dump fails."""
    if file == STREAM:
        try:
            yield sys.stdout.buffer
            sys.stdout.flush()
        except AnswerLost as lost:
            discard_answer()
            raise FileNotWritten(f"{lost}; the dump is incomplete: free some space, and repeat the dump") from None
        return
    part = file.with_name(f"{file.name}.part")
    try:
        number = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, OWNER_ONLY)
    except FileExistsError:
        raise Refusal(
            f"{part} exists: another dump is writing this file, or was killed; remove the file if no dump runs"
        ) from None
    except OSError as error:
        raise Refusal(f"{shortened(str(part))} can't be created: {error.strerror}") from None
    try:
        with os.fdopen(number, "wb") as target:
            yield target
            target.flush()
            os.fsync(target.fileno())
    except OSError as error:
        part.unlink()
        raise FileNotWritten(
            f"{file} can't be written: {error.strerror}; free some space, or name a file on another disk"
        ) from None
    except BaseException:
        part.unlink()
        raise
    part.rename(file)


@contextmanager
def _counted(verb: str, total: int | None) -> Iterator[Callable[[int], None]]:
    """Show the number of copied bytes on a terminal; the caller passes the number after each chunk."""
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn())
    with Progress(*columns, console=err, disable=not err.is_terminal) as bars:
        task = bars.add_task(verb, total=total)
        yield lambda done: bars.update(task, completed=done)
