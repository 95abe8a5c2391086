"""Ask Postgres as its clients do: in SQL with named arguments, or from Python through a session."""

from __future__ import annotations

from typing import Any

import asyncpg

from sql.session import Session
from tests.store import BOUND_S, Hand


def session(dsn: str) -> Session:
    """Open a client's session."""
    return Session(dsn, application="test", timeout_s=BOUND_S)


async def call(hand: Hand, function: str, **arguments: Any) -> Any:
    """Call a function of the schema; the first column of its first row comes back."""
    named = ", ".join(f"{name} => ${number}" for number, name in enumerate(arguments, 1))
    return await hand.value(f"select shardclock.{function}({named})", *arguments.values())


async def schedule(hand: Hand, **arguments: Any) -> int:
    """Schedule a timer; in an hour, unless told otherwise."""
    when = {} if arguments.keys() & {"due_date", "delay", "schedule"} else {"delay": "PT1H"}
    return int(await call(hand, "schedule_timer", **when, **arguments))


async def refusal(hand: Hand, function: str, **expressions: str) -> str:
    """Call a function with SQL expressions; the sentence of its refusal comes back, or "nothing"."""
    named = ", ".join(f"{name} => {expression}" for name, expression in expressions.items())
    async with hand.session.connection() as connection:
        try:
            await connection.execute(f"select shardclock.{function}({named})")
        except asyncpg.PostgresError as error:
            return str(error)
    return "nothing"
