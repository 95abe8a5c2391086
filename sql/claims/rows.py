"""The results of a shard's statements: leased timers, and the lags of fired timers."""

import itertools
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, fields
from operator import itemgetter
from typing import TypeVar

from shardclock_server.sql.session import Record, Session, StatementRefused, StoreLocked
from shardclock_server.timers.model import ClaimedTimer

# The constraints that refuse a new timer's key if a timer or a delivery with this key exists.
KEYS = ("timers_pkey", "deliveries_pkey")
TRIES = 3  # If three tries in a row meet a new lock, the cause is probably a bug: then raise an error.
# The numbers of the requests that a process sends on several connections. Postgres's clock can't order these requests,
# because the clock may be set back.
request_numbers = itertools.count(1)

T = TypeVar("T")
_columns = itemgetter(*(field.name for field in fields(ClaimedTimer) if field.name != "request_number"))


@dataclass(frozen=True, slots=True)
class Lags:
    """The timers in one bucket of a lag histogram.

    Each combination of target, timer type and `asked` has a histogram; `edges_within` is the number of the bucket.
    `sum_s` is the total lag of the bucket's timers. `asked` is `late` if the timers were overdue by more than a second
    when they were scheduled, moved or resumed; otherwise `asked` is `ahead`.
    """

    target: str
    timer_type: str
    asked: str
    edges_within: int
    timers: int
    sum_s: float


def claimed_timer(row: Record, request_number: int) -> ClaimedTimer:
    """Return a leased timer from a row of a result; `request_number` identifies the request that got this result."""
    return ClaimedTimer(*(*_columns(row), request_number))


def lags_of(text: str | None) -> list[Lags]:
    """Parse a lag histogram. If the text is None, no lag was measured."""
    return [Lags(*bucket) for bucket in json.loads(text)] if text else []


async def retry_lost_races(session: Session, send: Callable[[], Awaitable[T]]) -> T:
    """Send a statement that reads rows and then locks them.

    If another transaction locks a row between the read and the lock, the statement is sent again: its second attempt
    sees the lock, and skips the row. If the sequence of keys was set back, the key of a next occurrence may be in use;
    then the sequence is moved forward.
    """
    for _ in range(TRIES - 1):
        try:
            return await send()
        except StoreLocked:
            continue
        except StatementRefused as error:
            if error.constraint not in KEYS:
                raise
            await session.call("advance_keys")
    return await send()
