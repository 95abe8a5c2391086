"""The demo's app: one handler, imported and called like a user's handlers."""

import asyncio

import shardclock
from shardclock_server.demo.calls import note_call
from shardclock_server.demo.example import ATTEMPTS_MAX, BUSY, CLOSED, TARGET, warehouse_of

ANSWER_S = 0.1  # The duration of a call, so long that a killed worker has some calls in progress.


class WarehouseSilent(Exception):
    """The warehouse did not answer, so the goods of the order are still reserved."""


@shardclock.on_timer(TARGET, max_attempts=ATTEMPTS_MAX, timeout="PT10S", retry_min="PT0.1S", retry_max="PT0.5S")
async def release_goods(timer: shardclock.Timer) -> None:
    """Return the goods of an order that was not paid in time."""
    note_call(timer.timer_key, timer.attempt)
    await asyncio.sleep(ANSWER_S)
    warehouse = warehouse_of(timer.payload)
    if warehouse == CLOSED or (warehouse == BUSY and timer.attempt == 1):
        raise WarehouseSilent(f"the warehouse is {warehouse}")
