# Written by `make docs` from async_reading.py: change that, and write this anew.
"""Read the command log in order, each record once.

A position is drawn before its transaction commits. A reader that simply goes on from the last position it saw would
skip records that commit late. So `shardclock.read_log` stops where an open transaction may still add a record. Only
transactions that have written to the log hold readers back: docs/decisions/0024-the-log-reads-by-position.md.
"""

import json

from shardclock.log.place import PartitionPlace
from shardclock.log.record import LogRecord, records_of
from shardclock.sql.asked import written
from shardclock.sql.statement import statement
from shardclock.sql.sync_timers import Driver

READ_MAX = 500


def read_log(
    driver: Driver,
    after: int = 0,
    *,
    limit: int = READ_MAX,
    horizon: int | None = None,
    payload_bytes: int | None = None,
) -> list[LogRecord]:
    """Read the records after a position that the reader keeps itself; 0 reads from the beginning.

    units:   no other record follows once the payloads have `payload_bytes`
    errors:  those of the driver
    source:  client/shardclock/sql/statements/read_log.sql
    """
    asked = {"after": after, "page_size": limit, "partition": 0, "partitions": 1}
    return _read(driver, {**asked, "horizon": horizon, "bytes": payload_bytes})


def read_place(driver: Driver, place: PartitionPlace, limit: int) -> list[LogRecord]:
    """Read the records of a partition after its place, up to its horizon.

    errors:  those of the driver
    source:  client/shardclock/sql/statements/read_log.sql
    """
    asked = {"after": place.position, "page_size": limit, "horizon": place.horizon}
    return _read(driver, {**asked, "partition": place.partition, "partitions": place.partitions})


def log_end(driver: Driver) -> int:
    """Find the position up to which all records are readable now.

    errors:  those of the driver
    source:  client/shardclock/sql/statements/log_end.sql
    """
    answer = driver.answer(statement("log_end"), "{}")
    assert answer is not None
    return int(json.loads(answer)["position"])


def _read(driver: Driver, asked: dict[str, object]) -> list[LogRecord]:
    return records_of(driver.answer(statement("read_log"), written(asked)))
