"""What is answered about incidents."""

from dataclasses import asdict
from datetime import datetime
from typing import Self

from pydantic import Field

from shardclock_server.gateway.answers.answer import MOMENT, TENANT, Answer
from shardclock_server.gateway.answers.processes import INSTANCE_KEY, NODE, PROCESS, VERSION
from shardclock_server.service.incidents import Token
from shardclock_server.service.many import Changed
from shardclock_server.sql.processes.incidents import FoundIncident

TOKEN = Field(examples=[3])


class IncidentAnswer(Answer):
    """One incident."""

    instance_key: int = INSTANCE_KEY
    tenant_id: str = TENANT
    process_id: str = PROCESS
    version: int = VERSION
    token: int = TOKEN
    node_id: str = NODE
    signal_key: int = Field(
        examples=[0], description="0: the token has stopped; else the dead letter that is to be redriven"
    )
    sentence: str = Field(examples=["the card is expired"])
    raised_at: datetime = MOMENT

    @classmethod
    def of(cls, found: FoundIncident) -> Self:
        """Make it of what was found."""
        return cls(**asdict(found))


class IncidentsAnswer(Answer):
    """Some incidents, the newest first."""

    incidents: list[IncidentAnswer]


class TokenAnswer(Answer):
    """One token of an instance."""

    instance_key: int = INSTANCE_KEY
    token: int = TOKEN


class ResolvedAnswer(Answer):
    """What became of incidents, or would."""

    tokens: list[TokenAnswer] = Field(description="that go on, the one that stopped first coming first")
    said: str = Field(examples=["1 incident resolved"])
    more: bool = Field(examples=[False], description="whether others are left")

    @classmethod
    def of(cls, resolved: Changed[Token]) -> Self:
        """Make it of what was done."""
        tokens = [TokenAnswer(instance_key=key, token=token) for key, token in resolved.keys]
        return cls(tokens=tokens, said=resolved.sentence, more=resolved.more)
