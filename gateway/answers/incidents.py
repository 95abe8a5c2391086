"""What is answered about incidents."""

from dataclasses import asdict
from typing import Self

from pydantic import Field

from shardclock.api import processes
from shardclock_server.gateway.answers.answer import MOMENT_TEXT, examples
from shardclock_server.service.incidents import Token
from shardclock_server.service.many import Changed
from shardclock_server.sql.processes.incidents import FoundIncident


class IncidentAnswer(
    processes.Incident,
    json_schema_extra=examples(token=3, signal_key=0, sentence="the card is expired", raised_at=MOMENT_TEXT),
):
    """One incident."""

    @classmethod
    def of(cls, found: FoundIncident) -> Self:
        """Make it of what was found."""
        return cls(**asdict(found))


class IncidentsAnswer(processes.IncidentsPage):
    """Some incidents, the newest first."""

    incidents: tuple[IncidentAnswer, ...]


class TokenAnswer(processes.StoppedToken, json_schema_extra=examples(token=3)):
    """One token of an instance."""


class ResolvedAnswer(processes.Resolved, json_schema_extra=examples(said="1 incident resolved")):
    """What became of incidents, or would."""

    tokens: tuple[TokenAnswer, ...] = Field(description="that go on, the one that stopped first coming first")

    @classmethod
    def of(cls, resolved: Changed[Token]) -> Self:
        """Make it of what was done."""
        tokens = [TokenAnswer(instance_key=key, token=token) for key, token in resolved.keys]
        return cls(tokens=tokens, said=resolved.sentence, more=resolved.more)
