"""Write many rows in one statement, and those that Postgres refuses for their values alone."""

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from shardclock_server.sql.session import StatementRefused

T = TypeVar("T")
R = TypeVar("R")


async def write_in_halves(
    batch: Sequence[T],
    write: Callable[[Sequence[T]], Awaitable[R]],
    refused: Callable[[T, StatementRefused], Awaitable[R]],
) -> list[R]:
    """Write a batch; if its values are refused, halve it until the one at fault stands alone, and call `refused`.

    shape:   what `write` and `refused` return, of the batch's parts in their order
    errors:  StatementRefused  for no fault of the values, as for a right that is missing
             and whatever else `write` and `refused` raise
    """
    try:
        return [await write(batch)]
    except StatementRefused as error:
        if not error.are_values_at_fault:
            raise
        if len(batch) == 1:
            return [await refused(batch[0], error)]
    middle = len(batch) // 2
    return [
        *await write_in_halves(batch[:middle], write, refused),
        *await write_in_halves(batch[middle:], write, refused),
    ]
