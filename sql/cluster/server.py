"""Read the version, settings and state of the Postgres server."""

from dataclasses import dataclass
from datetime import datetime

from shardclock_server.sql.session import Session


@dataclass(frozen=True, slots=True)
class PostgresState:
    """The server's version, limits and settings; `unsafe` names settings with which a crash may lose committed rows.

    units:   `oldest_transaction_s` is the age of the oldest open transaction; None: no other transaction is open
    """

    major: int
    role: str
    has_schema: bool
    server_time: datetime
    connections: int
    connections_max: int
    is_standby: bool
    unsafe: list[str]
    vacuums: bool
    oldest_transaction_s: float | None
    prepared: int


async def read_server(session: Session) -> PostgresState:
    """Read the server's state, even if the schema does not exist.

    errors:  StoreUnavailable  no answer before the timeout
    source:  sql/cluster/read_server.sql
    """
    row = await session.row("read_server")
    assert row is not None
    return PostgresState(**row)
