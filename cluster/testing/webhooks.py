"""What would have been sent to endpoints, kept and not sent."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from shardclock_server.webhooks.answers import Answer, Delivered
from shardclock_server.webhooks.endpoint import Endpoint
from shardclock_server.webhooks.sender import Message

EVERYWHERE = "0.0.0.0/0, ::/0"  # may be named as endpoints: nothing is sent there
ACCEPTED = 204


@dataclass(frozen=True, slots=True)
class Webhook:
    """One webhook: where it would have gone, its id, which is the same in each attempt, and its body."""

    url: str
    tenant_id: str
    id: str
    body: dict[str, Any]


class WebhookBook:
    """Take the sender's place: write down each webhook, and answer as an endpoint that accepts it."""

    def __init__(self) -> None:
        self.webhooks: list[Webhook] = []

    async def send(self, endpoint: Endpoint, write: Callable[[], Message], *, tenant_id: str) -> Answer:
        """Write down a webhook."""
        message = write()
        self.webhooks.append(Webhook(str(endpoint.url), tenant_id, message.id, json.loads(message.body)))
        return Delivered(ACCEPTED, 0.0)
