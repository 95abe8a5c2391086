"""The response models of targets."""

from dataclasses import asdict, replace
from datetime import datetime
from typing import Self

from pydantic import Field

from shardclock.api.answers import Answer
from shardclock_server.sql.deliveries.targets import Target


class TargetAnswer(Answer):
    """A target that timers may name."""

    target: str = Field(examples=["order.expired"])
    kind: str = Field(examples=["handler"], description="log, handler, job or webhook")
    tenant_id: str | None = Field(examples=[None], description="the tenant that may use the target; null: each tenant")
    closed_at: datetime | None = Field(
        examples=[None], description="the time since which new timers with this target are refused"
    )
    closed_why: str | None = Field(examples=[None])
    waiting: int = Field(examples=[12], description="the caller's pending deliveries, counted up to 1,000")
    dead_letters: int = Field(examples=[0], description="the caller's dead letters, counted up to 1,000")
    workers: int | None = Field(
        examples=[2],
        description="the number of running workers with the target; null: the log, an endpoint, or a key of one tenant",
    )

    @classmethod
    def of(cls, target: Target, *, is_operator: bool) -> Self:
        """Create the response model from a stored target; `workers` is null unless the caller is an operator."""
        return cls(**asdict(target if is_operator else replace(target, workers=None)))


class TargetsAnswer(Answer):
    """All targets: the log, the handlers, the jobs, and last the endpoints; each group is sorted by name."""

    targets: list[TargetAnswer]
