"""Pass the database's address to the processes of a Ray node, in environment variables.

An actor's arguments must contain no secret, because Ray stores the arguments, possibly in Redis's files:
docs/decisions/0031-passwords.md.
"""

import os
from collections.abc import Mapping
from pathlib import Path

from shardclock_server.sql.dsn import Dsn
from shardclock_server.workers.python_environment import for_our_python

DSN = "SHARDCLOCK_DSN"
DSN_FILE = "SHARDCLOCK_DSN_FILE"


class NoDatabase(Exception):
    """A Ray node's environment doesn't name the database; the message names the missing variable."""


def environment_of(dsn: Dsn) -> dict[str, str]:
    """Return the environment variables that pass a database's address to child processes."""
    return {DSN_FILE: str(dsn.file)} if dsn.file is not None else {DSN: dsn.reveal()}


def environment_with(settings: Mapping[str, str], dsn: Dsn | None = None) -> dict[str, str]:
    """Return the environment of a child process: this process's environment, the given settings and the given database.

    Variables that configure another Python are left out.
    """
    inherited = {name: value for name, value in for_our_python(os.environ).items() if name not in (DSN, DSN_FILE)}
    return {**inherited, **settings, **(environment_of(dsn) if dsn is not None else {})}


def dsn_of_node() -> Dsn:
    """Read the DSN of this node's actors from the environment.

    errors:  NoDatabase  neither variable is set.
             InvalidDsn  no connection is possible with this DSN.
    """
    file, text = os.environ.get(DSN_FILE), os.environ.get(DSN)
    if file:
        return Dsn(file=Path(file))
    if text:
        return Dsn(text)
    raise NoDatabase(f"this Ray node doesn't know the database: set {DSN_FILE} or {DSN} where its `ray start` runs")
