"""The commands that give access to the database itself: dsn, psql."""

import os
import shutil
import signal
import subprocess
from collections.abc import Mapping
from typing import Annotated
from urllib.parse import unquote, urlsplit

import typer

from shardclock_server.cli.output import DONE, NOT_THERE, tell
from shardclock_server.cluster.database import named, open_database
from shardclock_server.cluster.settings import load_settings
from shardclock_server.embedded.postmaster import psql_of_ours, without_libpq

IN_QUERY = "password="  # libpq also reads a password in the DSN's query


def dsn() -> int:
    """Print the database's DSN with its password: the one that was configured, or the embedded Postgres's."""
    database = named(load_settings())
    print(database.dsn.reveal())
    if not database.is_there:
        tell("it isn't running: `shardclock up` starts it, `shardclock psql` starts it until psql ends")
    return DONE


def psql(
    arguments: Annotated[
        list[str] | None, typer.Argument(metavar="[PSQL_OPTION]...", help="Such as -c 'select 1'.", show_default=False)
    ] = None,
) -> int:
    """Open psql on the database; start the embedded Postgres if it is needed and not running."""
    program = psql_of_ours() or shutil.which("psql")
    if program is None:
        tell(
            "shardclock: there is no psql, neither beside the embedded Postgres nor on PATH; install postgresql-client"
        )
        return NOT_THERE
    with open_database(load_settings()) as database:
        # The shell's variables are for another Postgres, if none was named.
        environment = without_libpq(os.environ) if database.is_embedded else os.environ
        return _run(program, database.dsn.reveal(), arguments or [], environment)


def without_password(dsn: str) -> tuple[str, str | None]:
    """Separate a DSN and its password, because every user of the machine can read command lines."""
    parts = urlsplit(dsn)
    user, _, host = parts.netloc.rpartition("@")
    user, _, password = user.partition(":")
    asked = parts.query.split("&")
    password = next((text.removeprefix(IN_QUERY) for text in asked if text.startswith(IN_QUERY)), password)
    query = "&".join(text for text in asked if not text.startswith(IN_QUERY))
    bare = f"{parts.scheme}://{f'{user}@' if user else ''}{host}{parts.path}{f'?{query}' if query else ''}"
    return bare, unquote(password) or None


def _run(program: str, dsn: str, arguments: list[str], environment: Mapping[str, str]) -> int:
    bare, password = without_password(dsn)
    environment = {**environment, **({"PGPASSWORD": password} if password else {})}
    # exec would replace this process, which must still release an embedded Postgres. Ctrl-C is for psql, not for us.
    before = signal.signal(signal.SIGINT, lambda *_: None)
    try:
        code = subprocess.run([program, bare, *arguments], env=environment, check=False).returncode
    finally:
        signal.signal(signal.SIGINT, before)
    return code if code >= 0 else 128 - code
