"""Lend tests a sender that may connect to loopback."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from shardclock_server.webhooks.addresses import networks_of
from shardclock_server.webhooks.sender import Sender, SenderSettings


@pytest.fixture
async def sender() -> AsyncIterator[Sender]:
    """Give a sender with short limits."""
    settings = SenderSettings(connect_s=0.5, excerpt_s=0.3)
    async with Sender(settings, networks=networks_of(allowed=["127.0.0.0/8"])) as one:
        yield one
