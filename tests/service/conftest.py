"""The sessions of a client and of an operator, and a worker and a shard that a test steps by hand."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from shardclock_server.service import bulk_change
from shardclock_server.sql.session import Session
from tests.support.factories import HolderClient, add_holder
from tests.support.job_runs import JobWorker
from tests.support.roles import OPERATOR
from tests.support.sql_client import session as opened


@pytest.fixture
async def session(dsn: str) -> AsyncIterator[Session]:
    """Open a client's session with the scheduler role, which has all rights that clients of jobs need."""
    async with opened(dsn) as client:
        yield client


@pytest.fixture
async def operator(dsn: str) -> AsyncIterator[Session]:
    """Open an operator's session, which may also change timers."""
    async with opened(dsn, OPERATOR) as client:
        yield client


@pytest.fixture
async def worker(dsn: str) -> AsyncIterator[JobWorker]:
    """Start a worker that holds all slots."""
    async with JobWorker(dsn, 11) as hand:
        yield hand


@pytest.fixture
async def shard(dsn: str) -> AsyncIterator[HolderClient]:
    """Start a shard that the test steps by hand."""
    await add_holder(dsn, 0xBEEF)
    async with HolderClient(dsn, holder=0xBEEF, role=OPERATOR) as hand:
        yield hand


@pytest.fixture
def small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give each page of an operation two timers."""
    monkeypatch.setattr(bulk_change, "PAGE_TIMERS", 2)
