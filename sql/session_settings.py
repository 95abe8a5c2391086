"""The settings that each session sets for itself, so that the settings of a database, role or pooler have no effect.

If a promise depends on a default, an operator can break the promise by changing the default. Under `repeatable read` a
statement takes its snapshot before it waits for a lock, and then one occurrence got two records. With
`synchronous_commit = off`, a crash lost timers after the client had got its answer.
docs/decisions/0037-pinned-semantics.md has all the reasons.
"""

import os
from collections.abc import Collection, Mapping
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import asyncpg

PINNED: Mapping[str, str] = {
    "default_transaction_isolation": "read committed",
    "default_transaction_read_only": "off",
    "synchronous_commit": "on",
    # A name without a schema is found in pg_catalog. Temporary tables and types come last; by default they come first.
    "search_path": "pg_catalog, pg_temp",
    "TimeZone": "UTC",
    "DateStyle": "ISO, MDY",
    "IntervalStyle": "postgres",
    "standard_conforming_strings": "on",
    "transform_null_equals": "off",
    "row_security": "on",
    "extra_float_digits": "1",
    "bytea_output": "hex",
    "idle_session_timeout": "0",
}

# A host that vanishes closes no connection. These settings end its sessions and their locks after about 10 s instead of
# 2 hours. They work on TCP connections only.
KEEPALIVES = {
    "tcp_keepalives_idle": "5",
    "tcp_keepalives_interval": "1",
    "tcp_keepalives_count": "4",
    "tcp_user_timeout": "9s",
}

# The further settings of a copy by pg_dump and psql: a copy takes as long as it takes.
_UNLIMITED = {"statement_timeout": "0", "lock_timeout": "0", "idle_in_transaction_session_timeout": "0"}

_READ = "select pg_backend_pid() as pid, array(select current_setting(n) from unnest($1::text[]) n) as settings"
_NO_POOLER = "sessions of Shardclock keep settings and locks, so name Postgres itself, not a connection pooler"


def settings_of(
    application: str, timeout_s: float, *, plans: Mapping[str, str], inherits: Collection[str]
) -> dict[str, str]:
    """Return a session's settings, including its `plans`, without the settings in `inherits`: the role sets these."""
    # The server ends a statement shortly before the session's timeout: otherwise the server would work on a statement
    # after its caller has left. Also, a frozen client must not keep due rows locked for longer than a statement may
    # take.
    limit_ms = str(int(timeout_s * 900))
    return {
        "application_name": application,
        **{name: value for name, value in PINNED.items() if name not in inherits},
        "statement_timeout": limit_ms,
        "lock_timeout": limit_ms,
        "idle_in_transaction_session_timeout": limit_ms,
        **KEEPALIVES,
        **plans,
    }


def options_of_programs() -> str:
    """Return the value of PGOPTIONS that gives programs of Postgres the settings of a session, without time limits."""
    pinned = {**PINNED, **_UNLIMITED}
    return " ".join(f"-c {name}={value.replace(' ', chr(92) + ' ')}" for name, value in pinned.items())


# The transaction_timeout setting. It is the only limit that frees the locks of a client that stops after a statement
# and before the end of its message. An older server refuses a connection that names the setting.
TRANSACTION_TIMEOUT_SINCE = (17,)


class PoolerInBetween(Exception):
    """A connection pooler answers instead of Postgres: other clients would share our session's settings and locks."""


async def connect(dsn: str, settings: Mapping[str, str], *, timeout_s: float) -> asyncpg.Connection:
    """Open a connection with these settings to a backend that serves it alone.

    errors:  PoolerInBetween  a pooler refuses the settings, has dropped them, or lends us a backend
             any error of asyncpg when it can't connect
    """
    try:
        connection = await asyncpg.connect(
            dsn,
            server_settings=dict(settings),
            timeout=timeout_s,
            # Without TLS this argument has no effect, but asyncpg would otherwise read PGSSLNEGOTIATION.
            direct_tls=False if _is_without_tls(dsn) else None,
            # asyncpg's default plans each statement of more than 15 KiB anew, each time; apply_steps then took 4 ms.
            max_cacheable_statement_size=0,
        )
    except FileNotFoundError as error:
        raise _with_its_name(error, dsn) from None
    except asyncpg.ProtocolViolationError as error:
        if "unsupported startup parameter" in str(error):
            raise PoolerInBetween(f"{error}; {_NO_POOLER}") from error
        raise
    try:
        await _require_own_backend(connection, settings)
        if connection.get_server_version() >= TRANSACTION_TIMEOUT_SINCE:
            # This limit is a little later than the other limits, which end a slow statement and keep its session.
            await connection.execute(f"set transaction_timeout = {int(timeout_s * 1000)}")
    except BaseException:
        connection.terminate()
        raise
    return connection


def _is_without_tls(dsn: str) -> bool:
    return parse_qs(urlsplit(dsn).query).get("sslmode", [""])[-1] == "disable"


def _with_its_name(error: FileNotFoundError, dsn: str) -> FileNotFoundError:
    """Name the missing certificate file: the error of TLS says only that some file is missing."""
    given = parse_qs(urlsplit(dsn).query).get("sslrootcert", [os.environ.get("PGSSLROOTCERT", "")])[-1]
    missing = error.filename is None and given and not Path(given).exists()
    return FileNotFoundError(error.errno, error.strerror, given) if missing else error


async def _require_own_backend(connection: asyncpg.Connection, wanted: Mapping[str, str]) -> None:
    names = [name for name in PINNED if name in wanted]
    row = await connection.fetchrow(_READ, names)
    assert row is not None
    promised = connection.get_server_pid()
    if row["pid"] != promised:
        raise PoolerInBetween(f"backend {promised} is expected and {row['pid']} answers; {_NO_POOLER}")
    for name, found in zip(names, row["settings"], strict=True):
        if found != wanted[name]:
            raise PoolerInBetween(f'{name} is "{found}" where the session asked for "{wanted[name]}"; {_NO_POOLER}')
