"""What is answered about the audit."""

from dataclasses import asdict
from datetime import datetime
from typing import Any, Self

from pydantic import Field

from shardclock.api.answers import Answer
from shardclock_server.gateway.answers.answer import value_of
from shardclock_server.sql.audit.acts import Act


class ActAnswer(Answer):
    """What an operator did."""

    act_id: int = Field(examples=[31])
    recorded_at: datetime = Field(examples=["2027-01-31T08:00:00Z"])
    role: str = Field(
        examples=["gateway"], description="the database role that logged in: a gateway's, or an operator's own"
    )
    interface: str = Field(examples=["api"], description="api or cli")
    key_prefix: str | None = Field(examples=["k7v2m4qa"], description="of the API key; null: none was needed")
    key_name: str | None = Field(examples=["operations"])
    tenant_id: str | None = Field(examples=["acme"], description="for which tenant; null: for the whole installation")
    verb: str = Field(examples=["endpoints disable"], description="in the words of the command line")
    what: Any = Field(examples=[{"name": "billing"}], description="what was asked for, without secrets")
    outcome: str = Field(examples=["done"], description="done, not done, or failed: it may be done in part")
    address: str | None = Field(examples=["10.0.0.7"], description="where the caller was")

    @classmethod
    def of(cls, act: Act) -> Self:
        """Make it of what was found."""
        return cls(**{**asdict(act), "what": value_of(act.what)})


class AuditAnswer(Answer):
    """Some acts, the newest first."""

    acts: list[ActAnswer]
