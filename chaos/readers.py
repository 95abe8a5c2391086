"""Read the log during a run, through the proxy: python -m chaos.readers.

The readers run in a separate process: in the rig's process, the 100,000 records of a flood would block the rig, and all
traffic through its proxy. The readers write the position of each record into an append-only file, as eight bytes.
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

from chaos.sandbox import Sandbox
from shardclock.log import LogRecord, consume
from shardclock_server.sql.log.records import follow
from shardclock_server.sql.session import Connection, Session, StoreUnavailable
from tests.support.roles import as_role

FILE = "followed"
# The only table that the role of the consumer can write.
RECEIVED = (
    "create table chaos_received (number bigserial primary key, position bigint not null);"
    " grant insert on chaos_received to test_consumer;"
    " grant usage on sequence chaos_received_number_seq to test_consumer"
)
RECEIVE = "insert into chaos_received (position) select unnest($1::bigint[])"
STOP_S = 10.0
AGAIN_S = 0.1


@asynccontextmanager
async def reading(sandbox: Sandbox) -> AsyncIterator[Path]:
    """Run two readers of the log during a block: a consumer group, and a follower that writes into the yielded file.

    errors:  AssertionError  the process ended early
    """
    async with sandbox.admin() as admin:
        await admin.execute(RECEIVED)
    file = sandbox.directory / FILE
    file.touch()
    command = [sys.executable, "-m", "chaos.readers", sandbox.dsn, str(file)]
    process = await asyncio.create_subprocess_exec(*command, stdout=sys.stderr)
    try:
        yield file
        assert process.returncode is None, f"the process of the readers ended early: {process.returncode}"
    finally:
        if process.returncode is None:
            process.terminate()
        async with asyncio.timeout(STOP_S):
            await process.wait()


def count_in(file: Path) -> int:
    """Count the positions in a file."""
    return file.stat().st_size // array("q").itemsize


def positions_in(file: Path) -> Sequence[int]:
    """Return the positions in a file, in their order."""
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
