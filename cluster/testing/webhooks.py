"""Record a test's webhooks instead of sending them."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from shardclock_server.webhooks.answer_classification import Answer, Delivered
from shardclock_server.webhooks.endpoint import Endpoint
from shardclock_server.webhooks.sender import WebhookMessage

EVERYWHERE = "0.0.0.0/0, ::/0"  # all addresses are allowed as endpoints, because no webhook is sent
ACCEPTED = 204


@dataclass(frozen=True, slots=True)
class Webhook:
    """One recorded webhook: the endpoint's URL, the webhook's id (the same in each attempt), and the body."""

    url: str
    tenant_id: str
    id: str
    body: dict[str, Any]


class WebhookBook:
    """Replace the sender of webhooks: record each webhook, and answer as an endpoint that accepts it."""

    def __init__(self) -> None:
        self.webhooks: list[Webhook] = []

    async def send(self, endpoint: Endpoint, write: Callable[[], WebhookMessage], *, tenant_id: str) -> Answer:
        """Record a webhook."""
        message = write()
        self.webhooks.append(Webhook(str(endpoint.url), tenant_id, message.id, json.loads(message.body)))
        return Delivered(ACCEPTED, 0.0)
