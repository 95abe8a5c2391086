"""The response models of incidents."""

from typing import Self

from pydantic import Field

from shardclock.api import processes
from shardclock_server.gateway.answers.answer import MOMENT_TEXT, RowAnswer, examples
from shardclock_server.service.bulk_wording import BulkResult
from shardclock_server.service.incidents import Token


class IncidentAnswer(
    RowAnswer,
    processes.Incident,
    json_schema_extra=examples(token=3, signal_key=0, sentence="the card is expired", raised_at=MOMENT_TEXT),
):
    """One incident."""


class IncidentsAnswer(processes.IncidentsPage):
    """A page of incidents, the newest first."""

    incidents: tuple[IncidentAnswer, ...]


class TokenAnswer(processes.StoppedToken, json_schema_extra=examples(token=3)):
    """One token of an instance."""


class ResolvedAnswer(processes.Resolved, json_schema_extra=examples(message="1 incident resolved")):
    """The result of resolving incidents, or of a dry run."""

    tokens: tuple[TokenAnswer, ...] = Field(
        description="the tokens that continue; the token that stopped first comes first"
    )

    @classmethod
    def of(cls, resolved: BulkResult[Token]) -> Self:
        """Create the response model from the result of a change."""
        tokens = [TokenAnswer(instance_key=key, token=token) for key, token in resolved.keys]
        return cls(tokens=tokens, message=resolved.sentence, more=resolved.more)
