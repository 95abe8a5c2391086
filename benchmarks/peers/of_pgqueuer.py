"""pgqueuer: python of_pgqueuer.py open DSN | work DSN SHEET | add DSN COUNT."""

import asyncio
import struct
import sys
import time
from datetime import timedelta

import asyncpg
import uvloop
from pgqueuer import PgQueuer
from pgqueuer.models import Job
from pgqueuer.queries import Queries
from recording import Sheet, until_told_to_stop


async def open_(dsn: str) -> None:
    """Create the peer's tables."""
    connection = await asyncpg.connect(dsn)
    await Queries.from_asyncpg_connection(connection).install()
    await connection.close()


async def work(dsn: str, path: str) -> None:
    """Fire timers until the benchmark closes standard input."""
    sheet = Sheet(path)
    async with asyncpg.create_pool(dsn, min_size=4, max_size=8) as pool:
        queuer = PgQueuer.from_asyncpg_pool(pool)

        @queuer.entrypoint("fire")
        async def fire(job: Job) -> None:
            sheet.note(struct.unpack("!d", job.payload)[0])

        running = queuer.run(batch_size=1000, dequeue_timeout=timedelta(seconds=0.1))
        await until_told_to_stop(sheet, running, queuer.shutdown.set)


async def add(dsn: str, count: str) -> None:
    """Add jobs with the bulk function, a thousand at a time; print the seconds that this took."""
    connection = await asyncpg.connect(dsn)
    queries = Queries.from_asyncpg_connection(connection)
    began_s = time.perf_counter()
    for _ in range(0, int(count), 1000):
        payloads: list[bytes | None] = [struct.pack("!d", 0.0)] * 1000
        await queries.enqueue(["fire"] * 1000, payloads, [0] * 1000, [timedelta(days=1)] * 1000)
    sys.stdout.write(f"{time.perf_counter() - began_s}\n")
    await connection.close()


if __name__ == "__main__":
    asyncio.set_event_loop_policy(uvloop.EventLoopPolicy())
    asyncio.run({"open": open_, "work": work, "add": add}[sys.argv[1]](*sys.argv[2:]))
