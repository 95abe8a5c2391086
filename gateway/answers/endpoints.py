"""What is answered about endpoints."""

from dataclasses import asdict
from datetime import datetime
from typing import Any, Self

from pydantic import Field

from gateway.answers.answer import Answer
from service.endpoints import Done, NewSecret
from sql.endpoints.endpoints import WEBHOOK, ListedEndpoint


class EndpointAnswer(Answer):
    """Where webhooks are sent."""

    name: str = Field(examples=["billing"])
    tenant_id: str
    target: str = Field(examples=["webhook:billing"])
    url: str
    policy: Any
    added_at: datetime
    changed_at: datetime
    disabled_at: datetime | None
    disabled_why: str | None
    waiting: int = Field(description="deliveries that are on their way there")

    @classmethod
    def of(cls, endpoint: ListedEndpoint) -> Self:
        """Make it of what was found."""
        return cls(target=f"{WEBHOOK}{endpoint.name}", **asdict(endpoint))


class EndpointsAnswer(Answer):
    """Some endpoints, by name."""

    endpoints: list[EndpointAnswer]


class SaidAnswer(Answer):
    """What was done; `changed` is false if it was so already."""

    said: str
    changed: bool

    @classmethod
    def of(cls, done: Done) -> Self:
        """Make it of what was done."""
        return cls(said=done.sentence, changed=done.changed)


class SecretAnswer(Answer):
    """What was done, and what the receiver verifies webhooks with, which is not shown again."""

    said: str
    secret: str

    @classmethod
    def of(cls, made: NewSecret) -> Self:
        """Make it of what was done."""
        return cls(said=made.sentence, secret=made.verifier)


class TriedAnswer(Answer):
    """What an endpoint answered to a test."""

    delivered: bool
    said: str
    duration_s: float
