"""Run Postgres's own programs during a command, such as pg_dump."""

import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from shardclock_server.cli.database import DatabaseAccess
from shardclock_server.embedded.postmaster import bundled
from shardclock_server.embedded.reasons import cause_in
from shardclock_server.timers.refusal import Refusal

PIECE_BYTES = 1 << 20


class ProgramFailed(Exception):
    """One of Postgres's programs failed; the message has the program's name and the cause."""


def program_of(name: str, server: int) -> str:
    """Find a program of Postgres, such as pg_dump, with the same major version as the server.

    errors:  Refusal  the program is neither bundled nor on PATH
    """
    found = bundled(name, server) or shutil.which(name)
    if found is None:
        raise Refusal(f"{name} was found neither beside the embedded Postgres nor on PATH: install postgresql-client")
    return found


@contextmanager
def running(
    words: Sequence[str], access: DatabaseAccess, *, stdin: IO[bytes] | int | None = None, stdout: int | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    """Run a program while the block runs; an error in the block ends the program.

    errors:  ProgramFailed  the program failed; the message has the cause from the program's output
    """
    with tempfile.TemporaryFile() as errors:
        program = subprocess.Popen(words, env=dict(access.environment), stdin=stdin, stdout=stdout, stderr=errors)
        try:
            with suppress(BrokenPipeError):  # The program has ended early; its output contains the cause.
                yield program
        except BaseException:
            program.terminate()
            raise
        finally:
            for pipe in (program.stdin, program.stdout):
                if pipe is not None:
                    with suppress(BrokenPipeError):
                        pipe.close()
            code = program.wait()
        if code != 0:
            errors.seek(0)
            raise ProgramFailed(f"{Path(words[0]).name}: {cause_in(errors.read().decode(errors='replace'))}")


def pieces(source: IO[bytes]) -> Iterator[bytes]:
    """Yield the content of a pipe in chunks until its end."""
    while piece := source.read(PIECE_BYTES):
        yield piece


@contextmanager
def ended_by_signal() -> Iterator[None]:
    """Handle SIGTERM like Ctrl-C during a block, so that the block can end its programs and remove its files."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
