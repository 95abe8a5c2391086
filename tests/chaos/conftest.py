"""Lend tests a proxy before their database."""

from __future__ import annotations

from collections.abc import AsyncIterator
from urllib.parse import urlsplit

import pytest

from chaos.proxy import Proxy


@pytest.fixture
async def proxy(dsn: str) -> AsyncIterator[Proxy]:
    """Stand before the database of the test."""
    proxy = Proxy.before(dsn)
    await proxy.start()
    try:
        yield proxy
    finally:
        await proxy.close()


@pytest.fixture
def through(proxy: Proxy, dsn: str) -> str:
    """Name the same database, on the other side of the proxy."""
    return f"postgresql://postgres@127.0.0.1:{proxy.port}{urlsplit(dsn).path}"
