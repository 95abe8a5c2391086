"""Give tests a proxy in front of their database."""

from __future__ import annotations

from collections.abc import AsyncIterator
from urllib.parse import urlsplit

import pytest

from chaos.proxy import Proxy


@pytest.fixture
async def proxy(dsn: str) -> AsyncIterator[Proxy]:
    """Start a proxy in front of the test's database."""
    proxy = Proxy.before(dsn)
    await proxy.start()
    try:
        yield proxy
    finally:
        await proxy.close()


@pytest.fixture
def through(proxy: Proxy, dsn: str) -> str:
    """Return the DSN of the same database through the proxy."""
    return f"postgresql://postgres@127.0.0.1:{proxy.port}{urlsplit(dsn).path}"
