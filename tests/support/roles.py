"""Tests connect with the role of least rights: each group role has a login role."""

from __future__ import annotations

import re

import asyncpg

from shardclock_server.sql.migrate import migrate

ANSWER_S = 60
ROLES = ("owner", "shard", "scheduler", "consumer", "reader", "gateway")
# The operator is a member of several group roles, because some tests need all these rights in one session. The
# superuser makes objects that only tests need.
OPERATOR, SUPERUSER = "operator", "superuser"

MADE = (
    *(f"create role test_{role} login in role shardclock_{role}" for role in ROLES),
    f"create role test_{OPERATOR} login in role shardclock_shard, shardclock_scheduler, shardclock_consumer",
    # The group role owns the objects of this role, as with `shardclock migrate`.
    "alter role test_owner set role = shardclock_owner",
    # As docs/operate/monitoring.md advises for an exporter; the exporter of `up` connects with the shards' role.
    "grant pg_monitor to test_reader, test_shard",
)
USER = re.compile(rf"(?<=//)(?:postgres|test_(?:{'|'.join((*ROLES, OPERATOR))})):?(?=@)")  # the DSN of a test server

# The commands that each role may run: docs/operate/security.md has the same list.
COMMANDS = {
    "owner": ("migrate", "keys", "dump", "restore"),
    "shard": (
        "up",
        "doctor",
        "scale",
        "ramp",
        "switch",
        "leave",
        "hold",
        "release",
        "operate",
        "consumers",
        "dead-letters",
        "deliveries",
        "endpoints",
        "notify",
        "tenants",
        "audit",
        "operations",
    ),
    "scheduler": (
        "schedule",
        "cancel",
        "reschedule",
        "pause",
        "resume",
        "run-now",
        "jobs",
        "deploy",
        "processes",
        "tasks",
    ),
    "gateway": ("gateway",),
    "reader": ("exporter", "list", "show", "explain", "tail", "status", "targets", "schedules", "forecast", "preview"),
}


async def migrate_with_roles(dsn: str, *, wall: bool = False) -> None:
    """Set up a test's own server like the shared servers: schema, group roles and login roles, row-level security."""
    if wall:
        await ask_for_wall(dsn)
    await migrate(dsn, roles=True)
    connection = await asyncpg.connect(dsn, timeout=ANSWER_S)
    try:
        for statement in MADE:
            await connection.execute(statement, timeout=ANSWER_S)
    finally:
        await connection.close(timeout=ANSWER_S)


async def ask_for_wall(dsn: str, *, wall: str = "on") -> None:
    """Prepare a database so that its next migration makes or removes the policies of row-level security."""
    connection = await asyncpg.connect(as_role(dsn, SUPERUSER), timeout=ANSWER_S)
    try:
        name = await connection.fetchval("select quote_ident(current_database())")
        await connection.execute(f"alter database {name} set shardclock.wall = '{wall}'", timeout=ANSWER_S)
    finally:
        await connection.close(timeout=ANSWER_S)


def as_role(dsn: str, role: str) -> str:
    assert role in (*ROLES, OPERATOR, SUPERUSER), role
    named, count = USER.subn("postgres:" if role == SUPERUSER else f"test_{role}:", dsn, count=1)
    assert count == 1, "not the DSN of a test server"
    return named


def for_command(dsn: str, command: str) -> str:
    """Return a test server's DSN with the least role for a command; leave any other DSN unchanged."""
    if not USER.search(dsn):
        return dsn
    (role,) = (role for role, commands in COMMANDS.items() if command in commands)
    return as_role(dsn, role)
