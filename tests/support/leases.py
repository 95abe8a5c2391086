"""Lease batches of records, and process the records as a member does."""

from __future__ import annotations

from functools import partial

from shardclock.log import AsyncBatch as Batch
from shardclock.log.async_groups import open_group
from shardclock.log.async_leasing import lease_batch
from shardclock_server.sql.session import Session
from tests.support import sql_client

session = partial(sql_client.session, role="consumer")


class LeasedWork:
    """Record the keys of the work; some keys raise."""

    def __init__(self, *bad: int, acknowledges: bool = False) -> None:
        self.bad = set(bad)
        self.acknowledges = acknowledges
        self.seen: list[int] = []
        self.done: list[int] = []

    async def __call__(self, batch: Batch) -> None:
        for record in batch.records:
            self.seen.append(record.timer_key)
            if record.timer_key in self.bad:
                raise ValueError(f"no {record.timer_key}")
            self.done.append(record.timer_key)
            if self.acknowledges:
                await batch.acknowledge(record)


async def lease(member: Session, *, limit: int = 100, lease_s: float = 30.0) -> Batch:
    batch = await lease_batch(member, "g", limit=limit, lease_s=lease_s)
    assert batch is not None
    return batch


def keys(batch: Batch) -> list[int]:
    return [record.timer_key for record in batch.records]


async def die(dsn: str, *, limit: int) -> Batch:
    """Lease a batch as a member that then disappears."""
    async with session(dsn) as client:
        await open_group(client, "g")
        while (batch := await lease_batch(client, "g", limit=limit, lease_s=0.001)) is None:
            pass
    return batch
