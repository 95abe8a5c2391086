"""A shard's client for the tests of workers."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.support.deliveries import HANDLER, declare
from tests.support.factories import HolderClient, add_holder


@pytest.fixture
async def shard(dsn: str) -> AsyncIterator[HolderClient]:
    await declare(dsn, HANDLER)
    await add_holder(dsn, 1)
    async with HolderClient(dsn, holder=1) as hand:
        yield hand
