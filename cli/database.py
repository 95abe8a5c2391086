"""The commands that give access to the database itself: dsn, psql."""

import os
import shutil
import signal
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated
from urllib.parse import unquote, urlsplit

import typer

from shardclock.api.codes import NO_ANSWER
from shardclock_server.cli.output import DONE, print_note
from shardclock_server.cluster.database import Database, named, open_database, require_data
from shardclock_server.cluster.settings import load_settings
from shardclock_server.embedded.postmaster import bundled, without_libpq

IN_QUERY = "password="  # the parameter of a DSN's query in which libpq also reads a password


def dsn() -> int:
    """Print the DSN, with its password, of the configured database or of the embedded Postgres."""
    database = named(load_settings())
    print(database.dsn.reveal())
    if not database.is_there:
        print_note("it isn't running: `shardclock up` starts it, `shardclock psql` starts it until psql ends")
    return DONE


def psql(
    arguments: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[PSQL_OPTION]...", help="Arguments of psql, such as -c 'select 1'.", show_default=False
        ),
    ] = None,
) -> int:
    """Open psql on the database; if the embedded Postgres is the database, start it first."""
    program = bundled("psql") or shutil.which("psql")
    if program is None:
        print_note(
            "shardclock: there is no psql, neither beside the embedded Postgres nor on PATH; install postgresql-client"
        )
        return NO_ANSWER
    settings = load_settings()
    require_data(settings)
    with open_database(settings) as database:
        return _run([program, *(arguments or [])], access_of(database))


@dataclass(frozen=True)
class DatabaseAccess:
    """A DSN without its password, and the environment variable with the password, for a program of Postgres."""

    dsn: str
    environment: Mapping[str, str]


def access_of(database: Database) -> DatabaseAccess:
    """Give one of Postgres's programs access to a database."""
    # Without a configured database, the shell's variables for libpq belong to another Postgres.
    environment = without_libpq(os.environ) if database.is_embedded else os.environ
    bare, password = without_password(database.dsn.reveal())
    return DatabaseAccess(bare, {**environment, **({"PGPASSWORD": password} if password else {})})


def without_password(dsn: str) -> tuple[str, str | None]:
    """Remove the password from a DSN, because all users of a machine can read command lines.

    Return the DSN and the password.
    """
    parts = urlsplit(dsn)
    user, _, host = parts.netloc.rpartition("@")
    user, _, password = user.partition(":")
    asked = parts.query.split("&")
    password = next((text.removeprefix(IN_QUERY) for text in asked if text.startswith(IN_QUERY)), password)
    query = "&".join(text for text in asked if not text.startswith(IN_QUERY))
    bare = f"{parts.scheme}://{f'{user}@' if user else ''}{host}{parts.path}{f'?{query}' if query else ''}"
    return bare, unquote(password) or None


def _run(words: list[str], access: DatabaseAccess) -> int:
    program, *arguments = words
    # No exec: this process must stop an embedded Postgres after psql's end. Ignore Ctrl-C, because Ctrl-C is for psql.
    before = signal.signal(signal.SIGINT, lambda *_: None)
    try:
        code = subprocess.run([program, access.dsn, *arguments], env=access.environment, check=False).returncode
    finally:
        signal.signal(signal.SIGINT, before)
    return code if code >= 0 else 128 - code
