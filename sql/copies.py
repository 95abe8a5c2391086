"""Whole databases, made as copies of another: a migrated one in a few hundredths of a second."""

from shardclock_server.sql.session import Session

# Postgres takes no parameters in these; the names are ours, and hold nothing that would need quotes.
_CREATE, _COPY = "create database {name}", "create database {name} template {template} strategy file_copy"
_DROP = "drop database if exists {name} with (force)"
# A test's data need not survive a crash, and nothing then waits for a disk.
_UNSAFE = ("alter system set fsync = off", "alter system set full_page_writes = off", "select pg_reload_conf()")


async def create_database(session: Session, name: str, *, template: str | None = None) -> None:
    """Make a database, empty or as a copy of another one, to which nobody is connected.

    errors:  StatementRefused  there is one of that name, or somebody is connected to the template
             StoreUnavailable  the outcome is unknown
    """
    async with session.connection() as connection:
        await connection.execute((_COPY if template else _CREATE).format(name=name, template=template))


async def drop_database(session: Session, name: str) -> None:
    """Drop a database, whoever is connected to it.

    errors:  StoreUnavailable  the outcome is unknown: call again
    """
    async with session.connection() as connection:
        await connection.execute(_DROP.format(name=name))


async def forgo_safety(session: Session) -> None:
    """Let a server wait for no disk: a crash of the machine may then destroy all its databases.

    errors:  StatementRefused  the role is no superuser
             StoreUnavailable  the outcome is unknown: call again
    """
    async with session.connection() as connection:
        for statement in _UNSAFE:
            await connection.execute(statement)
