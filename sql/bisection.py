"""Write many rows in one statement.

If the database refuses a row, write the batch in smaller and smaller parts until the refused row is in a separate
batch.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from shardclock_server.sql.session import StatementRefused

T = TypeVar("T")
R = TypeVar("R")
E = TypeVar("E", bound=Exception)


def values_at_fault(error: Exception) -> StatementRefused | None:
    """Return the error if a row's values caused it; return None for any other cause, such as a missing right."""
    return error if isinstance(error, StatementRefused) and error.are_values_at_fault else None


def halves_of(batch: Sequence[T]) -> list[Sequence[T]]:
    """Divide a batch into two halves."""
    middle = len(batch) // 2
    return [batch[:middle], batch[middle:]]


async def write_in_halves(
    batch: Sequence[T],
    write: Callable[[Sequence[T]], Awaitable[R]],
    alone: Callable[[T, E], Awaitable[R]],
    fault_of: Callable[[Exception], E | None],
    parts_of: Callable[[Sequence[T]], Sequence[Sequence[T]]] = halves_of,
) -> list[R]:
    """Write a batch, and handle refused rows separately.

    If the database refuses a row, divide the batch until a part has only this row, and call `alone` with the row.

    shape:   the results of `write` and `alone`, in the order of the batch's parts
    errors:  any error of `write` for which `fault_of` returns None, and any error of `alone`
    """
    try:
        return [await write(batch)]
    except Exception as error:
        if (fault := fault_of(error)) is None:
            raise
        if len(batch) == 1:
            return [await alone(batch[0], fault)]
    written = list[R]()
    for part in parts_of(batch):
        written += await write_in_halves(part, write, alone, fault_of, parts_of)
    return written
