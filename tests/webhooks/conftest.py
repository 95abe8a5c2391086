"""Define a sender for tests that may connect to loopback."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from shardclock_server.webhooks.addresses import networks_of
from shardclock_server.webhooks.sender import SenderSettings, WebhookSender


@pytest.fixture
async def sender() -> AsyncIterator[WebhookSender]:
    settings = SenderSettings(connect_s=0.5, excerpt_s=0.3)
    async with WebhookSender(settings, networks=networks_of(allowed=["127.0.0.0/8"])) as one:
        yield one
