"""The response models of the audit."""

from dataclasses import asdict
from datetime import datetime
from typing import Any, Self

from pydantic import Field

from shardclock.api.answers import Answer
from shardclock_server.gateway.answers.answer import NEXT, value_of
from shardclock_server.sql.audit.acts import AuditRecord


class ActAnswer(Answer):
    """One change by an operator."""

    act_id: int = Field(examples=[31])
    recorded_at: datetime = Field(examples=["2027-01-31T08:00:00Z"])
    role: str = Field(
        examples=["gateway"],
        description="the Postgres role that made the change: a gateway's role, or an operator's own role",
    )
    interface: str = Field(examples=["api"], description="api, cli or console")
    key_prefix: str | None = Field(
        examples=["k7v2m4qa"],
        description="the prefix of the API key; null: a person signed in, or the gateway needs no key",
    )
    key_name: str | None = Field(examples=["operations"], description="the name of the API key, or the person's name")
    subject: str | None = Field(
        examples=[None],
        description="the person's identifier at the identity provider; null: no person has signed in",
    )
    tenant_id: str | None = Field(
        examples=["acme"], description="the tenant of the change; null: the whole installation"
    )
    verb: str = Field(examples=["endpoints disable"], description="the change, by its name in the command line")
    parameters: Any = Field(
        examples=[{"name": "billing"}], description="the parameters of the request, without secrets"
    )
    outcome: str = Field(examples=["done"], description="done, not done, or failed (some rows may have been changed)")
    address: str | None = Field(
        examples=["10.0.0.7"], description="the caller's address, if the gateway or Postgres knows it"
    )

    @classmethod
    def of(cls, act: AuditRecord) -> Self:
        """Create the response model from a stored record."""
        return cls(**{**asdict(act), "parameters": value_of(act.parameters)})


class AuditAnswer(Answer):
    """A page of audit records, the newest first."""

    acts: list[ActAnswer]
    next: str | None = NEXT
