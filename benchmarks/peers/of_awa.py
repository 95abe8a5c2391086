"""awa: python of_awa.py open DSN | work DSN SHEET."""

from __future__ import annotations  # Job[Fire] does not exist at run time

import asyncio
import sys
from dataclasses import dataclass

import awa
from recording import Sheet, until_told_to_stop

AT_ONCE = 128
CLAIMED = 512
STOP_MS = 2_000


@dataclass
class Fire:
    """A timer; awa's name of this kind of job is the class name in lower case."""

    due: float


def client_on(dsn: str) -> awa.AsyncClient:
    """Create a client for a database."""
    # awa refuses a URL without a host, even if its query string names a socket directory (`?host=/dir`).
    return awa.AsyncClient(dsn.replace("@/", "@localhost/", 1), max_connections=20)


async def open_(dsn: str) -> None:
    """Create the peer's tables."""
    async with client_on(dsn) as client:
        await client.migrate()
        await client.install_queue_storage()


async def work(dsn: str, path: str) -> None:
    """Fire timers until the benchmark closes standard input."""
    sheet = Sheet(path)
    async with client_on(dsn) as client:

        @client.task(Fire, queue="fire")
        async def fire(job: awa.Job[Fire]) -> None:
            sheet.note(job.args.due)

        await client.start(
            [{"name": "fire", "max_workers": AT_ONCE, "claim_batch_size": CLAIMED}],
            poll_interval_ms=50,
            promote_interval_ms=50,
        )
        stopped = asyncio.Event()
        await until_told_to_stop(sheet, stopped.wait(), stopped.set)
        await client.shutdown(timeout_ms=STOP_MS)
        sheet.flush()


if __name__ == "__main__":
    asyncio.run({"open": open_, "work": work}[sys.argv[1]](*sys.argv[2:]))
