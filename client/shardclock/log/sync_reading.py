# Written by `make docs` from async_reading.py: change that, and write this anew.
"""Read the command log in order, each record once.

A position is drawn before its transaction commits. A reader that simply goes on from the last position it saw would
skip records that commit late. So `shardclock.read_log` stops where an open transaction may still add a record. Only
transactions that have written to the log hold readers back: docs/decisions/0024-the-log-reads-by-position.md.
"""

import json

from shardclock.log.place import PartitionPlace
from shardclock.log.record import LogPage, LogRecord, page_of
from shardclock.sql.asked import written
from shardclock.sql.statement import statement
from shardclock.sql.sync_timers import Driver

READ_MAX = 500
PAGE_BYTES = 4 * 2**20  # of records as JSON, but for the last one of them


def read_log(driver: Driver, after: int = 0, *, limit: int = READ_MAX) -> list[LogRecord]:
    """Read the records after a position that the reader keeps itself; 0 reads from the beginning.

    shape:   at most `limit` records, fewer if these have `PAGE_BYTES`; empty: there are no more now
    errors:  those of the driver
    source:  client/shardclock/sql/statements/read_log.sql
    """
    return (read_page(driver, after, limit=limit)).records


def read_page(
    driver: Driver, after: int, *, limit: int, horizon: int | None = None, bytes_max: int = PAGE_BYTES
) -> LogPage:
    """Read the records after a position, up to a horizon; without one, up to that of now.

    units:   no other record follows once the records have `bytes_max` as JSON
    errors:  those of the driver
    source:  client/shardclock/sql/statements/read_log.sql
    """
    asked = {"after": after, "page_size": limit, "partition": 0, "partitions": 1}
    return _read(driver, {**asked, "horizon": horizon, "bytes": bytes_max})


def read_place(driver: Driver, place: PartitionPlace, limit: int) -> LogPage:
    """Read the records of a partition after its place, up to its horizon.

    errors:  those of the driver
    source:  client/shardclock/sql/statements/read_log.sql
    """
    asked = {"after": place.position, "page_size": limit, "horizon": place.horizon, "bytes": PAGE_BYTES}
    return _read(driver, {**asked, "partition": place.partition, "partitions": place.partitions})


def log_end(driver: Driver) -> int:
    """Find the position up to which all records are readable now.

    errors:  those of the driver
    source:  client/shardclock/sql/statements/log_end.sql
    """
    answer = driver.answer(statement("log_end"), "{}")
    assert answer is not None
    return int(json.loads(answer)["position"])


def _read(driver: Driver, asked: dict[str, object]) -> LogPage:
    return page_of(driver.answer(statement("read_log"), written(asked)))
