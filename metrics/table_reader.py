"""Read the tables for scrapes; all scrapes within a few seconds use the same reading."""

import asyncio
import time

import structlog

from shardclock_server.metrics.tables import Tables, read_tables
from shardclock_server.sql.dsn import Dsn
from shardclock_server.sql.metrics.measures import readings_scan
from shardclock_server.sql.migrate import WrongSchema, require_current
from shardclock_server.sql.session import QUEUE_PLANS, Session, StatementRefused, StoreUnavailable

FRESH_S = 5.0
STATEMENT_S = 3.0
ALL_S = 8.0  # the timeout of one reading of all tables; Prometheus ends a scrape after 10 s


class TableReader:
    """Read the tables when a scrape needs them, at most every few seconds."""

    def __init__(self, dsn: Dsn | str) -> None:
        self._session = Session(dsn, application="shardclock metrics", timeout_s=STATEMENT_S, plans=QUEUE_PLANS)
        self._lock = asyncio.Lock()
        self._tables: Tables | None = None
        self._read_at_s = -FRESH_S
        self._scan = readings_scan()
        self._log = structlog.get_logger()
        self.why_not = "the exporter has not read the tables yet"

    async def fresh(self) -> Tables | None:
        """Return a reading that is at most a few seconds old.

        After a failure, return None and set `why_not` to the reason.
        """
        async with self._lock:
            now_s = time.monotonic()
            if now_s >= self._read_at_s + FRESH_S:
                self._tables = await self._read(now_s=now_s)
                self._read_at_s = time.monotonic()
            return self._tables

    async def close(self) -> None:
        """Close the connection."""
        await self._session.close()

    async def _read(self, *, now_s: float) -> Tables | None:
        window = self._scan.begin(now_s=now_s, every_s=now_s - self._read_at_s)
        try:
            async with asyncio.timeout(ALL_S):
                await require_current(self._session)
                tables = await read_tables(self._session, window)
        except (StoreUnavailable, StatementRefused, WrongSchema, TimeoutError) as error:
            why_not = " ".join(str(error).split()) or "no answer in time"
            if not isinstance(error, WrongSchema):
                why_not = f"Postgres does not answer as it should: {why_not}"
            if why_not != self.why_not:
                self._log.warning("the tables can't be read", error=why_not)
            self.why_not = why_not
            self._scan.fail(now_s=time.monotonic())
            return None
        self._scan.learn(now_s=time.monotonic(), left_s=tables.cluster.oldest_due_s)
        self.why_not = ""
        return tables
