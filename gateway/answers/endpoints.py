"""The response models of endpoints."""

from dataclasses import asdict
from datetime import datetime
from typing import Any, Self

from pydantic import Field

from shardclock.api.answers import Answer
from shardclock_server.gateway.answers.answer import MOMENT, TENANT, RowAnswer
from shardclock_server.service.endpoints import EndpointResult, NewSecret
from shardclock_server.sql.endpoints.endpoints import WEBHOOK, ListedEndpoint


class EndpointAnswer(Answer):
    """An endpoint: the URL and the policy of webhooks."""

    name: str = Field(examples=["billing"])
    tenant_id: str = TENANT
    target: str = Field(examples=["webhook:billing"])
    url: str = Field(
        examples=["https://billing.example.com/hooks"],
        description="the URL; for a key without the scope operate, without path and query, which may be secrets",
    )
    policy: Any = Field(examples=[{"concurrency": 50}], description="the policy's values that differ from the defaults")
    added_at: datetime = MOMENT
    changed_at: datetime = MOMENT
    disabled_at: datetime | None
    disabled_why: str | None
    waiting: int = Field(examples=[0], description="pending deliveries to the endpoint, counted up to 1,000")
    failing: int = Field(examples=[0], description="pending deliveries with a failed attempt, counted up to 100")
    failing_since: datetime | None = Field(
        examples=[None],
        description="the moment when the oldest failing delivery was fired or redriven; null: no delivery fails",
    )
    attempts: int = Field(examples=[20], description="the number of the last attempts that are stored, at most 20")
    accepted: int = Field(
        examples=[19], description="the number of stored attempts in which the endpoint accepted the delivery"
    )

    @classmethod
    def of(cls, endpoint: ListedEndpoint) -> Self:
        """Create the response model from a stored endpoint."""
        return cls(target=f"{WEBHOOK}{endpoint.name}", **asdict(endpoint))


class EndpointAttemptAnswer(RowAnswer):
    """One attempt to deliver to an endpoint, or one test send."""

    timer_key: int | None = Field(examples=[20514], description="the timer's key; null: a test send")
    attempt: int | None = Field(
        examples=[1], description="the number of the attempt, counted from 1; null: a test send"
    )
    ended_at: datetime = MOMENT
    status: int | None = Field(examples=[503], description="the HTTP status of the response; null: no response came")
    duration_ms: int = Field(
        examples=[120], description="the time from the request to the headers of the response, or to the failure"
    )
    failure: str | None = Field(
        examples=["answered 503 Service Unavailable: busy"],
        description="the reason of the failure; null: the endpoint accepted the delivery",
    )
    body: str = Field(examples=["busy"], description="the first 2 KiB of the response's body")


class EndpointAttemptsAnswer(Answer):
    """The last attempts to deliver to an endpoint, the newest first."""

    attempts: list[EndpointAttemptAnswer]


class EndpointsAnswer(Answer):
    """A page of endpoints, by name."""

    endpoints: list[EndpointAnswer]


class EndpointChangedAnswer(Answer):
    """The result of a change; `changed` is false if there was nothing to change."""

    message: str = Field(
        examples=["endpoint webhook:billing is disabled"], description="a sentence that describes the result"
    )
    changed: bool = Field(examples=[True])

    @classmethod
    def of(cls, done: EndpointResult) -> Self:
        """Create the response model from the result of a change."""
        return cls(message=done.sentence, changed=done.changed)


class SecretAnswer(Answer):
    """The result of a change that created a secret, and this secret, which no later response shows."""

    message: str = Field(
        examples=["endpoint webhook:billing added"], description="a sentence that describes the result"
    )
    secret: str = Field(examples=["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"])

    @classmethod
    def of(cls, made: NewSecret) -> Self:
        """Create the response model from the result of a change."""
        return cls(message=made.sentence, secret=made.verifier)


class EndpointTestAnswer(Answer):
    """The response of an endpoint to a test webhook."""

    delivered: bool = Field(examples=[True])
    message: str = Field(examples=["it answered 204"])
    duration_s: float = Field(examples=[0.12])
