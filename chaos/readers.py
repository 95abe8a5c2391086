"""Read the log while a run lasts, through the proxy as everybody: python -m chaos.readers.

It is a process of its own: a flood's 100,000 records would hold up the rig, and with it all traffic through its proxy.
What was read is a file of positions, eight bytes each, that only grows.
"""

from __future__ import annotations

import asyncio
import signal
import sys
from array import array
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import asyncpg

from chaos.stage import Stage
from shardclock.log import LogRecord, consume
from shardclock_server.sql.log.records import follow
from shardclock_server.sql.session import Connection, Session, StoreUnavailable
from tests.support.roles import as_role

FILE = "followed"
# What a consumer's work writes to: its role may do nothing else there.
RECEIVED = (
    "create table chaos_received (number bigserial primary key, position bigint not null);"
    " grant insert on chaos_received to test_consumer;"
    " grant usage on sequence chaos_received_number_seq to test_consumer"
)
RECEIVE = "insert into chaos_received (position) select unnest($1::bigint[])"
STOP_S = 10.0
AGAIN_S = 0.1


@asynccontextmanager
async def reading(stage: Stage) -> AsyncIterator[Path]:
    """Let two read the log: one keeps its place itself and writes the file that is given, one is a consumer group.

    errors:  AssertionError  the process ended before it was told to
    """
    async with stage.admin() as admin:
        await admin.execute(RECEIVED)
    file = stage.place / FILE
    file.touch()
    command = [sys.executable, "-m", "chaos.readers", stage.dsn, str(file)]
    process = await asyncio.create_subprocess_exec(*command, stdout=sys.stderr)
    try:
        yield file
        assert process.returncode is None, f"the readers ended by themselves: {process.returncode}"
    finally:
        if process.returncode is None:
            process.terminate()
        async with asyncio.timeout(STOP_S):
            await process.wait()


def count_in(file: Path) -> int:
    """Count the positions that were read so far."""
    return file.stat().st_size // array("q").itemsize


def positions_in(file: Path) -> Sequence[int]:
    """Give the positions that were read, in that order."""
    positions = array("q")
    positions.frombytes(file.read_bytes())
    return positions


def write_positions(file: Path, positions: Iterable[int]) -> None:
    """Append positions in one write."""
    with file.open("ab", buffering=0) as out:
        out.write(array("q", positions).tobytes())


async def _read(dsn: str, file: Path) -> None:
    async with asyncio.TaskGroup() as readers:
        readers.create_task(_follow(as_role(dsn, "reader"), file))
        readers.create_task(consume(lambda: asyncpg.connect(as_role(dsn, "consumer")), "chaos", _keep))


async def _keep(connection: Connection, records: Sequence[LogRecord]) -> None:
    await connection.execute(RECEIVE, [record.position for record in records])


async def _follow(dsn: str, file: Path) -> None:
    position = 0
    async with Session(dsn, application="chaos follower") as session:
        while True:
            try:
                async for records in follow(session, position):
                    write_positions(file, (record.position for record in records))
                    if records:
                        position = records[-1].position
            except StoreUnavailable:
                await asyncio.sleep(AGAIN_S)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    asyncio.run(_read(sys.argv[1], Path(sys.argv[2])))
