"""Create databases as copies of a template. A copy of a migrated database takes a few hundredths of a second."""

from shardclock_server.sql.session import Session

# Postgres accepts no parameters in `create database` and `drop database`. Callers pass names that need no quotes.
_CREATE, _COPY = "create database {name}", "create database {name} template {template} strategy file_copy"
_DROP = "drop database if exists {name} with (force)"
# A test's data need not survive a crash. Without fsync, commits don't wait for the disk.
_UNSAFE = ("alter system set fsync = off", "alter system set full_page_writes = off", "select pg_reload_conf()")


async def create_database(session: Session, name: str, *, template: str | None = None) -> None:
    """Create a database, empty or as a copy of a template database that has no connections.

    errors:  StatementRefused  the name is in use, or the template has a connection
             StoreUnavailable  the outcome is unknown
    """
    async with session.connection() as connection:
        await connection.execute((_COPY if template else _CREATE).format(name=name, template=template))


async def drop_database(session: Session, name: str) -> None:
    """Drop a database, and end all connections to it.

    errors:  StoreUnavailable  the outcome is unknown: call again
    """
    async with session.connection() as connection:
        await connection.execute(_DROP.format(name=name))


async def forgo_safety(session: Session) -> None:
    """Turn off the server's disk flushes; then a crash of the machine may destroy all databases of the server.

    errors:  StatementRefused  the role is not a superuser
             StoreUnavailable  the outcome is unknown: call again
    """
    async with session.connection() as connection:
        for statement in _UNSAFE:
            await connection.execute(statement)
