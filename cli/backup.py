"""The commands that copy the database into a file and back: dump, restore.

They run `pg_dump` and `pg_restore` of the server's version, so an embedded database needs no other installation.
"""

import asyncio
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Annotated

import typer
from rich.filesize import decimal
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn

from shardclock_server.cli.database import DatabaseAccess, access_of
from shardclock_server.cli.output import DONE, Json, err, print_json, print_line, print_note
from shardclock_server.cluster.database import Database, open_database
from shardclock_server.cluster.settings import load_settings
from shardclock_server.embedded.postmaster import bundled
from shardclock_server.embedded.reasons import cause_in
from shardclock_server.service.hold import read_hold
from shardclock_server.sql.cluster.server import read_server
from shardclock_server.sql.dsn import Dsn
from shardclock_server.sql.migrate import migrate, require_current
from shardclock_server.sql.session import Session
from shardclock_server.timers.refusal import Refusal, shortened

MAGIC = b"PGDMP"  # the begin of each file in pg_dump's custom format
PIECE_BYTES = 1 << 20
OWNER_ONLY = 0o600  # only the file's owner may read the tenants' payloads and keys
DUMP = ["--format=custom", "--schema=shardclock", "--no-owner", "--no-privileges"]
RESTORE = ["--exit-on-error", "--single-transaction", "--no-owner", "--no-privileges"]


class ProgramFailed(Exception):
    """Carries the name of a program of Postgres and the cause of its failure."""


File = Annotated[Path, typer.Argument(metavar="FILE", help="The file of the copy.", show_default=False)]


def dump(file: File, as_json: Json = False) -> int:
    """Write a consistent copy of the schema into a new file; the cluster may run meanwhile."""
    if file.exists():
        raise Refusal(f"{shortened(str(file))} exists: name a new file")
    part = file.with_name(f"{file.name}.part")
    with open_database(load_settings()) as database:
        server = asyncio.run(_check_dump(database.dsn))
        with _reserved(part) as target, _counted("dump", None) as count:
            access = access_of(database)
            words = [_program("pg_dump", server), *DUMP, f"--dbname={access.dsn}"]
            with _running(words, access, stdout=subprocess.PIPE) as program:
                assert program.stdout is not None
                for piece in _pieces(program.stdout):
                    target.write(piece)
                    count(len(piece))
            os.fsync(target.fileno())
        part.rename(file)
    size = file.stat().st_size
    if as_json:
        print_json({"file": str(file), "bytes": size, "postgres": server})
    else:
        print_line(f"{file}: {decimal(size)}; `shardclock restore` reads it into a new database")
    return DONE


def restore(file: File, as_json: Json = False) -> int:
    """Read a file of `dump` into a database without the schema; nothing fires there until `shardclock release`."""
    try:
        source = file.open("rb")
    except OSError as error:
        raise Refusal(f"{shortened(str(file))} can't be read: {error.strerror}") from None
    with source:
        if source.read(len(MAGIC)) != MAGIC:
            raise Refusal(
                f"{shortened(str(file))} is neither a file of `shardclock dump` nor of `pg_dump --format=custom`"
            )
        source.seek(0)
        settings = load_settings()
        with open_database(settings, migrates=False) as database:
            server = asyncio.run(_check_restore(database))
            with _counted("restore", file.stat().st_size) as count:
                access = access_of(database)
                words = [_program("pg_restore", server), *RESTORE, f"--dbname={access.dsn}"]
                with _running(words, access, stdin=subprocess.PIPE) as program:
                    assert program.stdin is not None
                    for piece in _pieces(source):
                        program.stdin.write(piece)
                        count(len(piece))
                    program.stdin.close()
            hold = asyncio.run(_migrate(database.dsn, settings.identity or "", settings.coordinator.silent_s))
            if as_json:
                print_json({"file": str(file), "database": database.place, "hold": hold})
            else:
                print_line(f"{database.place} has the state of {file}")
                if hold:
                    print_note(f"it is on hold: {hold}; docs/operate/backup.md has the next steps")
    return DONE


async def _check_dump(dsn: Dsn) -> int:
    async with Session(dsn, application="shardclock dump") as session:
        await require_current(session)
        return (await read_server(session)).major


async def _check_restore(database: Database) -> int:
    async with Session(database.dsn, application="shardclock restore") as session:
        server = await read_server(session)
    if server.has_schema:
        raise Refusal(
            f"{database.place} has a schema shardclock already: name another database by SHARDCLOCK_DSN or"
            " SHARDCLOCK_DATA_DIR"
        )
    return server.major


async def _migrate(dsn: Dsn, identity: str, silent_s: float) -> str | None:
    """Bring the restored schema up to date; return the reason of its hold."""
    await migrate(dsn)
    async with Session(dsn, application="shardclock restore") as session:
        hold = await read_hold(session, identity, silent_s=silent_s)
    return hold.why if hold else None


def _program(name: str, server: int) -> str:
    found = bundled(name, server) or shutil.which(name)
    if found is None:
        raise Refusal(
            f"there is no {name}, neither beside the embedded Postgres nor on PATH: install postgresql-client"
        )
    return found


@contextmanager
def _reserved(part: Path) -> Iterator[IO[bytes]]:
    """Make a new file that only its owner may read; a failed copy leaves no file."""
    try:
        number = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, OWNER_ONLY)
    except OSError as error:
        raise Refusal(f"{shortened(str(part))} can't be made: {error.strerror}") from None
    try:
        with os.fdopen(number, "wb") as target:
            yield target
    except BaseException:
        part.unlink()
        raise


@contextmanager
def _running(
    words: Sequence[str], access: DatabaseAccess, *, stdin: int | None = None, stdout: int | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    """Run one of Postgres's programs during a block, and refuse its failure with the cause in its output."""
    with tempfile.TemporaryFile() as errors:
        program = subprocess.Popen(words, env=dict(access.environment), stdin=stdin, stdout=stdout, stderr=errors)
        try:
            with suppress(BrokenPipeError):  # the program has ended early; its output has the cause
                yield program
        finally:
            for pipe in (program.stdin, program.stdout):
                if pipe is not None:
                    with suppress(BrokenPipeError):
                        pipe.close()
            code = program.wait()
        if code != 0:
            errors.seek(0)
            raise ProgramFailed(f"{Path(words[0]).name}: {cause_in(errors.read().decode(errors='replace'))}")


def _pieces(source: IO[bytes]) -> Iterator[bytes]:
    while piece := source.read(PIECE_BYTES):
        yield piece


@contextmanager
def _counted(verb: str, total: int | None) -> Iterator[Callable[[int], None]]:
    """Show the number of copied bytes on a terminal; the caller reports each piece."""
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn())
    with Progress(*columns, console=err, disable=not err.is_terminal) as bars:
        task = bars.add_task(verb, total=total)
        yield lambda size: bars.advance(task, size)
