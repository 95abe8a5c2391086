# `make docs` writes this file from async_reading.py: change that file, and run `make docs`.
"""Read the command log in order, each record once.

A record gets its position before its transaction commits. A reader that continues after the highest known position
would therefore skip records that commit late. `shardclock.read_log` stops before the lowest position that an open
transaction may still write: docs/decisions/0024-the-log-reads-by-position.md.
"""

import json

from shardclock.log.partition import PartitionState
from shardclock.log.record import LogPage, LogRecord, page_of
from shardclock.sql.arguments import written
from shardclock.sql.statement import statement
from shardclock.sql.sync_timers import Driver

READ_MAX = 500
PAGE_BYTES = 4 * 2**20  # the size limit of a page's records as JSON; only the last record may exceed the limit


def read_log(driver: Driver, after: int = 0, *, limit: int = READ_MAX) -> list[LogRecord]:
    """Read the records after a position that the reader stores itself; 0 reads from the beginning.

    shape:   at most `limit` records, fewer if the records reach `PAGE_BYTES`; empty: there are no further records now
    errors:  Errors of the driver
    source:  client/shardclock/sql/statements/read_log.sql
    """
    return (read_page(driver, after, limit=limit)).records


def read_page(
    driver: Driver, after: int, *, limit: int, horizon: int | None = None, bytes_max: int = PAGE_BYTES
) -> LogPage:
    """Read the records after a position, up to `horizon` or up to the present horizon.

    units:   the page ends when the JSON of its records reaches `bytes_max`
    errors:  Errors of the driver
    source:  client/shardclock/sql/statements/read_log.sql
    """
    asked = {"after": after, "page_size": limit, "partition": 0, "partitions": 1}
    return _read(driver, {**asked, "horizon": horizon, "bytes": bytes_max})


def read_partition(driver: Driver, state: PartitionState, limit: int) -> LogPage:
    """Read the records of a partition, from the partition's position to its horizon.

    errors:  Errors of the driver
    source:  client/shardclock/sql/statements/read_log.sql
    """
    asked = {"after": state.position, "page_size": limit, "horizon": state.horizon, "bytes": PAGE_BYTES}
    return _read(driver, {**asked, "partition": state.partition, "partitions": state.partitions})


def log_end(driver: Driver) -> int:
    """Find the position up to which all records are readable now.

    errors:  Errors of the driver
    source:  client/shardclock/sql/statements/log_end.sql
    """
    answer = driver.answer(statement("log_end"), "{}")
    assert answer is not None
    return int(json.loads(answer)["position"])


def _read(driver: Driver, asked: dict[str, object]) -> LogPage:
    return page_of(driver.answer(statement("read_log"), written(asked)))
