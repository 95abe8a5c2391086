"""The commands for direct access to the database: dsn, psql."""

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

IN_QUERY = "password="  # libpq also reads a password from this parameter of the DSN's query
OPTIONS = "options="  # libpq reads a session's settings from this parameter of the DSN's query


def dsn() -> int:
    """Print the DSN, including the password, of the configured database or the embedded Postgres."""
    database = named(load_settings())
    print(database.dsn.reveal())
    if not database.is_there:
        print_note(
            "the embedded Postgres is not running: start it with `shardclock up`, or with `shardclock psql`"
            " until psql ends"
        )
    return DONE


def psql(
    arguments: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[PSQL_OPTION]...", help="Arguments of psql, such as -c 'select 1'.", show_default=False
        ),
    ] = None,
) -> int:
    """Open psql on the database; an embedded Postgres is started first."""
    program = bundled("psql") or shutil.which("psql")
    if program is None:
        print_note(
            "shardclock: psql was found neither beside the embedded Postgres nor on PATH; install postgresql-client"
        )
        return NO_ANSWER
    settings = load_settings()
    require_data(settings)
    with open_database(settings) as database:
        return _run([program, *(arguments or [])], access_of(database))


@dataclass(frozen=True)
class DatabaseAccess:
    """The connection data for a Postgres program: a DSN without the password, and an environment with the password."""

    dsn: str
    environment: Mapping[str, str]


def access_of(database: Database) -> DatabaseAccess:
    """Return the DSN and the environment for a program of Postgres that opens this database."""
    # Remove libpq's environment variables for the embedded database, because they describe another database.
    environment = without_libpq(os.environ) if database.is_embedded else os.environ
    bare, password = without_password(database.dsn.reveal())
    return DatabaseAccess(bare, {**environment, **({"PGPASSWORD": password} if password else {})})


def without_password(dsn: str) -> tuple[str, str | None]:
    """Return a DSN without its password, and the password.

    The password must not be in an argument, because all users of a machine can read command lines.
    """
    parts = urlsplit(dsn)
    user, _, host = parts.netloc.rpartition("@")
    user, _, password = user.partition(":")
    asked = parts.query.split("&")
    password = next((text.removeprefix(IN_QUERY) for text in asked if text.startswith(IN_QUERY)), password)
    query = "&".join(text for text in asked if not text.startswith(IN_QUERY))
    bare = f"{parts.scheme}://{f'{user}@' if user else ''}{host}{parts.path}{f'?{query}' if query else ''}"
    return bare, unquote(password) or None


def without_options(dsn: str) -> tuple[str, str]:
    """Return a DSN without its parameter `options` (the settings of its sessions), and the value of `options` ('' for
    none)."""
    head, _, query = dsn.partition("?")
    asked = [text for text in query.split("&") if text]
    options = [unquote(text.removeprefix(OPTIONS)) for text in asked if text.startswith(OPTIONS)]
    rest = "&".join(text for text in asked if not text.startswith(OPTIONS))
    return f"{head}{f'?{rest}' if rest else ''}", options[-1] if options else ""


def _run(words: list[str], access: DatabaseAccess) -> int:
    program, *arguments = words
    # Don't replace this process by psql, because this process must stop the embedded Postgres afterwards. Ignore
    # Ctrl-C, because psql handles it.
    before = signal.signal(signal.SIGINT, lambda *_: None)
    try:
        code = subprocess.run([program, access.dsn, *arguments], env=access.environment, check=False).returncode
    finally:
        signal.signal(signal.SIGINT, before)
    return code if code >= 0 else 128 - code
