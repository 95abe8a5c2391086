"""The settings that each session sets, so that settings of the database, the role or a pooler have no effect.

Shardclock's guarantees must not depend on defaults, because an operator can change a default. With `repeatable read`, a
statement that has waited for a lock still reads a snapshot from before the wait: so one occurrence got two records.
With `synchronous_commit = off`, a crash has lost timers that were confirmed to a client. All reasons:
docs/decisions/0037-pinned-semantics.md.
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
    # Postgres searches names without a schema in pg_catalog. Temporary tables and types are searched last; by default
    # they are searched first.
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

# If a host disappears, its connections are not closed. With these settings, Postgres ends the host's sessions and their
# locks after about 10 s instead of 2 hours. The settings apply to TCP connections only.
KEEPALIVES = {
    "tcp_keepalives_idle": "5",
    "tcp_keepalives_interval": "1",
    "tcp_keepalives_count": "4",
    "tcp_user_timeout": "9s",
}

# Further settings for a copy by pg_dump and psql: without time limits.
_UNLIMITED = {"statement_timeout": "0", "lock_timeout": "0", "idle_in_transaction_session_timeout": "0"}

_READ = "select pg_backend_pid() as pid, array(select current_setting(n) from unnest($1::text[]) n) as settings"
_NO_POOLER = "sessions of Shardclock keep settings and locks, so name Postgres itself, not a connection pooler"


def settings_of(
    application: str, timeout_s: float, *, plans: Mapping[str, str], inherits: Collection[str]
) -> dict[str, str]:
    """Return a session's settings, including its `plans`; omit the settings in `inherits`, because the role sets
    them."""
    # The server cancels a statement shortly before the session's timeout, so that no statement runs after its caller
    # has given up. Also, a frozen client must not keep due rows locked for longer than a statement may take.
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
    """Return a value of PGOPTIONS with a session's settings, without time limits, for programs such as pg_dump."""
    pinned = {**PINNED, **_UNLIMITED}
    return " ".join(f"-c {name}={value.replace(' ', chr(92) + ' ')}" for name, value in pinned.items())


# Servers of these versions and later have the setting transaction_timeout; an older server refuses a connection with
# this setting. If a client freezes in a transaction while it sends a message, only this limit frees the client's locks.
TRANSACTION_TIMEOUT_SINCE = (17,)


class PoolerInBetween(Exception):
    """The peer is a connection pooler, so other clients would share this session's settings and locks."""


async def connect(dsn: str, settings: Mapping[str, str], *, timeout_s: float) -> asyncpg.Connection:
    """Open a connection with these settings; check that its backend serves no other client.

    errors:  PoolerInBetween  a pooler refuses or drops the settings, or shares the backend with other clients
             Exception        any error of asyncpg when it can't connect
    """
    is_without_tls = parse_qs(urlsplit(dsn).query).get("sslmode", [""])[-1] == "disable"
    try:
        connection = await asyncpg.connect(
            dsn,
            server_settings=dict(settings),
            timeout=timeout_s,
            # These two arguments keep asyncpg from reading PGSSLNEGOTIATION and PGGSSLIB, which the embedded Postgres
            # ignores; without TLS they have no other effect.
            direct_tls=False if is_without_tls else None,
            gsslib="gssapi" if is_without_tls else None,
            # With asyncpg's default, a statement of more than 15 KiB is planned at each call; apply_steps.sql then took
            # 4 ms.
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
            # This limit ends the session. The limit is a little later than the limits that end only the statement.
            await connection.execute(f"set transaction_timeout = {int(timeout_s * 1000)}")
    except BaseException:
        connection.terminate()
        raise
    return connection


def _with_its_name(error: FileNotFoundError, dsn: str) -> FileNotFoundError:
    """Return an error that names the missing certificate file, because the TLS error does not contain the name."""
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
