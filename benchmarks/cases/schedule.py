"""Schedule timers, and measure the rate."""

import io
import json
import time
from abc import abstractmethod
from datetime import UTC, datetime, timedelta

from benchmarks.cases.case import PER_S, Case, Figures, Part
from benchmarks.contenders import Limit, Peer, each_peer
from benchmarks.contenders.contender import Batch, Contender
from shardclock_server.keepers.collector import collecting_seldom
from shardclock_server.service.bulk_import import ImportReport, import_lines, numbered_lines

FUNCTION = "select shardclock.schedule_timer(delay => 'P1D') from generate_series(1, $1::integer)"


class Way(Limit):
    """A way to schedule many timers with Shardclock."""

    added = 100_000

    @abstractmethod
    async def add(self, count: int) -> float:
        """Schedule timers for tomorrow; return the seconds that the scheduling took."""


class ByFunction(Way):
    """`shardclock.schedule_timer`, called for each timer."""

    name, settings = "Shardclock, SQL function", "one call for each timer, all in one statement"

    async def add(self, count: int) -> float:
        """Call the function for all timers in one statement."""
        async with self.session() as session, session.connection(timeout_s=300) as connection:
            began_s = time.perf_counter()
            await connection.execute(FUNCTION, count)
            return time.perf_counter() - began_s


class ByInsert(Way):
    """Insert rows into the table."""

    name, settings = "Shardclock, bulk insert", "one statement"

    async def add(self, count: int) -> float:
        """Insert all rows in one statement."""
        began_s = time.perf_counter()
        await self.put(Batch(count, datetime.now(UTC) + timedelta(days=1)))
        return time.perf_counter() - began_s


class ByFile(Way):
    """Import a file of JSON lines with the function that `shardclock schedule --file` calls."""

    name, settings = "Shardclock, NDJSON file", "batches of 2,000 on three connections, checked line by line"

    async def add(self, count: int) -> float:
        """Import a file in memory."""
        line = json.dumps({"delay": "P1D"}).encode() + b"\n"
        report = ImportReport()
        async with self.session() as one, self.session() as two, self.session() as three:
            began_s = time.perf_counter()
            with collecting_seldom():
                await import_lines((one, two, three), numbered_lines(io.BytesIO(line * count)), report)
            took_s = time.perf_counter() - began_s
        assert report.scheduled == count
        return took_s


async def measure(contender: Contender) -> Figures:
    """Schedule timers in an empty table while no timer fires."""
    assert isinstance(contender, Way | Peer)
    return {"per_s": contender.added / await contender.add(contender.added)}


CASE = Case(
    "schedule",
    "Timers scheduled",
    "Clients schedule timers for tomorrow into an empty table. The figure is the number of timers a second. Each"
    " peer uses its own call for many jobs, with a thousand jobs in one call.",
    (Part("", (PER_S,)),),
    lambda: [ByInsert(), ByFunction(), ByFile(), *each_peer()],
    measure,
)
