"""What is answered about targets."""

from dataclasses import asdict
from datetime import datetime
from typing import Self

from pydantic import Field

from shardclock.api.answers import Answer
from shardclock_server.sql.deliveries.targets import Target


class TargetAnswer(Answer):
    """What a timer may name as its target."""

    target: str = Field(examples=["order.expired"])
    kind: str = Field(examples=["handler"], description="log, handler, job or webhook")
    tenant_id: str | None = Field(examples=[None], description="whose timers may name it; null: everybody's")
    closed_at: datetime | None = Field(examples=[None], description="since when no new timer may name it")
    closed_why: str | None = Field(examples=[None])
    waiting: int = Field(examples=[12], description="the caller's deliveries on their way, counted up to 1,000")
    dead_letters: int = Field(examples=[0], description="those that were given up, counted up to 1,000")

    @classmethod
    def of(cls, target: Target) -> Self:
        """Make it of what was found."""
        return cls(**asdict(target))


class TargetsAnswer(Answer):
    """The targets that there are: the log, handlers, jobs, then endpoints, each by name."""

    targets: list[TargetAnswer]
