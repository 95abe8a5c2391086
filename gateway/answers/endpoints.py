"""What is answered about endpoints."""

from dataclasses import asdict
from datetime import datetime
from typing import Any, Self

from pydantic import Field

from shardclock.api.answers import Answer
from shardclock_server.gateway.answers.answer import MOMENT, TENANT
from shardclock_server.service.endpoints import Done, NewSecret
from shardclock_server.sql.endpoints.endpoints import WEBHOOK, ListedEndpoint


class EndpointAnswer(Answer):
    """Where webhooks are sent."""

    name: str = Field(examples=["billing"])
    tenant_id: str = TENANT
    target: str = Field(examples=["webhook:billing"])
    url: str = Field(examples=["https://billing.example.com/hooks"])
    policy: Any = Field(examples=[{"concurrency": 50}], description="what is not as usual")
    added_at: datetime = MOMENT
    changed_at: datetime = MOMENT
    disabled_at: datetime | None
    disabled_why: str | None
    waiting: int = Field(examples=[0], description="deliveries that are on their way there")

    @classmethod
    def of(cls, endpoint: ListedEndpoint) -> Self:
        """Make it of what was found."""
        return cls(target=f"{WEBHOOK}{endpoint.name}", **asdict(endpoint))


class EndpointsAnswer(Answer):
    """Some endpoints, by name."""

    endpoints: list[EndpointAnswer]


class SaidAnswer(Answer):
    """What was done; `changed` is false if it was so already."""

    said: str = Field(examples=["endpoint webhook:billing is disabled"], description="the same for people")
    changed: bool = Field(examples=[True])

    @classmethod
    def of(cls, done: Done) -> Self:
        """Make it of what was done."""
        return cls(said=done.sentence, changed=done.changed)


class SecretAnswer(Answer):
    """What was done, and what the receiver verifies webhooks with, which is not shown again."""

    said: str = Field(examples=["endpoint webhook:billing added"], description="the same for people")
    secret: str = Field(examples=["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"])

    @classmethod
    def of(cls, made: NewSecret) -> Self:
        """Make it of what was done."""
        return cls(said=made.sentence, secret=made.verifier)


class TriedAnswer(Answer):
    """What an endpoint answered to a test."""

    delivered: bool = Field(examples=[True])
    said: str = Field(examples=["it answered 204"])
    duration_s: float = Field(examples=[0.12])
