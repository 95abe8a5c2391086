"""Schedule timers in SQL, in the user's own transaction, which stores the timer together with the user's rows.

    from shardclock.sql import timers

    with psycopg.connect() as connection:
        connection.execute("insert into orders values (42)")
        timers(connection).schedule(delay="PT15M", target="order.expired", payload={"order": 42}, name="order-42")

`timers` takes a connection of psycopg 3 or asyncpg, or a connection or session of SQLAlchemy 2. The object that
`timers` returns has the methods of `shardclock.Client`, with the same fields, answers and errors. These methods are
awaited if the connection's methods are awaited.

    connections:  find the driver of a connection
    async_…      one file for each driver, and `async_timers` with the methods; `make docs` writes the `sync_…` files
    arguments:    the argument of a statement, as one JSON text
    answered:     the answer of a statement
    refusals:     convert refusals by Postgres to the client's errors
    statement:    read the files in `statements`
"""

from shardclock.api.answers import Changed, Scheduled, TimerState
from shardclock.api.errors import ApiError, Conflict, NameTaken, NotAllowed, NotFound, Refused, TooLate
from shardclock.api.fields import Destination, New, Put
from shardclock.sql.async_timers import AsyncTimers
from shardclock.sql.connections import timers
from shardclock.sql.sync_timers import Timers

__all__ = [
    "ApiError",
    "AsyncTimers",
    "Changed",
    "Conflict",
    "Destination",
    "NameTaken",
    "New",
    "NotAllowed",
    "NotFound",
    "Put",
    "Refused",
    "Scheduled",
    "TimerState",
    "Timers",
    "TooLate",
    "timers",
]
