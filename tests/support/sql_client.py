"""Call Postgres as clients do: in SQL with named arguments, or from Python through a session."""

from __future__ import annotations

from typing import Any

import asyncpg

from shardclock_server.sql.session import Session
from tests.support.factories import BOUND_S, HolderClient
from tests.support.roles import as_role


def session(dsn: str, role: str = "scheduler") -> Session:
    """Open a client's session, with the rights of a scheduler unless another role is given."""
    return Session(as_role(dsn, role), application="test", timeout_s=BOUND_S)


async def call(hand: HolderClient, function: str, **arguments: Any) -> Any:
    """Call a function of the schema; return the first column of its first row."""
    return await hand.call(function, arguments)


async def schedule(hand: HolderClient, **arguments: Any) -> int:
    """Schedule a timer, by default in an hour; return its key."""
    when = {} if arguments.keys() & {"due_date", "delay", "schedule"} else {"delay": "PT1H"}
    return int(await call(hand, "schedule_timer", **when, **arguments))


async def refusal(hand: HolderClient, function: str, **expressions: str) -> str:
    """Call a function with SQL expressions; return its refusal's sentence, or "nothing" if it does not refuse."""
    named = ", ".join(f"{name} => {expression}" for name, expression in expressions.items())
    async with hand.session.connection() as connection:
        try:
            await connection.execute(f"select shardclock.{function}({named})")
        except asyncpg.PostgresError as error:
            return str(error)
    return "nothing"
