"""Ask for timers in SQL, inside the user's own transaction: the timer and the user's rows are there both, or neither.

    from shardclock.sql import timers

    with psycopg.connect() as connection:
        connection.execute("insert into orders values (42)")
        timers(connection).schedule(delay="PT15M", target="order.expired", payload={"order": 42}, name="order-42")

`timers` takes a connection of psycopg 3 or asyncpg, or a connection or session of SQLAlchemy 2; where those are
awaited, so are its methods. They are those of `shardclock.Client`, with the same fields, answers and errors.

    connections  which driver a connection is asked by
    async_…      one file a driver, and `async_timers`: the methods; `sync_…` is written from them
    asked        what is asked, as one text
    answered     what is answered
    refusals     what Postgres refuses, as the client's errors
    statement    reads the files in `statements`
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
