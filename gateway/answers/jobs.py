"""What is answered about jobs and their runs."""

from datetime import datetime
from typing import Any, Self

from pydantic import Field

from shardclock_server.gateway.answers.answer import KEY, MOMENT, Answer, value_of
from shardclock_server.sql.jobs.history import JobRun
from shardclock_server.sql.jobs.jobs import Job


class JobAnswer(Answer):
    """A job, with all that is known of it."""

    name: str = Field(examples=["refresh"])
    function: str = Field(examples=["shop.jobs:refresh"])
    state: str = Field(examples=["SCHEDULED"])
    every_s: float | None = Field(examples=[900.0])
    schedule: str | None
    zone: str = Field(examples=["UTC"])
    missed: str = Field(examples=["fire_once"])
    overlap: str = Field(examples=["skip"])
    priority: int = Field(examples=[1])
    config: Any = Field(examples=[{"since": "2027-01-01"}])
    policy: Any = Field(examples=[{"max_runtime_s": 300}])
    next_start: datetime | None = Field(
        examples=["2027-01-01T09:00:00Z"],
        description="null: there is none, it is paused, or its rule is not planned yet",
    )
    paused_start: datetime | None = Field(description="when it would have started; null: its next start is not paused")
    paused_at: datetime | None
    paused_why: str | None
    paused_by: str | None
    waiting: int = Field(examples=[0])
    retry_at: datetime | None
    run_id: str | None
    run_attempt: int | None
    run_started_at: datetime | None
    cancel_why: str | None = Field(description="why its run is told to end")
    progress: float | None
    message: str | None
    last_start: datetime | None
    last_finish: datetime | None
    last_success: datetime | None
    last_outcome: str | None
    last_reason: str | None
    runs: int = Field(examples=[96])
    successes: int = Field(examples=[95])
    failures: int = Field(examples=[1])
    crashes: int = Field(examples=[0])
    consecutive_failures: int = Field(examples=[0])
    consecutive_crashes: int = Field(examples=[0])
    p50_s: float | None = Field(examples=[41.0])
    p99_s: float | None = Field(examples=[88.5])
    disabled_at: datetime | None
    disabled_why: str | None
    disabled_by: str | None
    withdrawn_at: datetime | None = Field(description="since when no app has its code; it is DISABLED, too")

    @classmethod
    def of(cls, job: Job) -> Self:
        """Make it of what was found."""
        fields = {name: getattr(job, name) for name in cls.model_fields}
        return cls(**fields | {name: value_of(fields[name]) for name in ("config", "policy")})


class JobsAnswer(Answer):
    """All jobs, by name."""

    jobs: list[JobAnswer]


class JobStateAnswer(Answer):
    """The state that a job has now."""

    state: str = Field(examples=["TERMINATING"])


class StartedAnswer(Answer):
    """A start of a job that was asked for."""

    timer_key: int = KEY


class RunAnswer(Answer):
    """One run of a job, or a start that was skipped."""

    run_id: str = Field(examples=["4711.2"])
    job: str = Field(examples=["refresh"])
    outcome: str | None = Field(examples=["SUCCEEDED"], description="null: it has not ended")
    attempt: int = Field(examples=[1])
    scheduled_at: datetime = MOMENT
    started_at: datetime = MOMENT
    running_at: datetime | None
    ended_at: datetime | None
    duration_s: float | None = Field(examples=[41.2])
    reason: str | None
    traceback: str | None
    result: Any = Field(examples=[{"rows": 1200}])
    progress: float | None
    message: str | None
    log: str | None = Field(description="the last lines that it printed")

    @classmethod
    def of(cls, run: JobRun) -> Self:
        """Make it of what was found."""
        fields = {name: getattr(run, name) for name in cls.model_fields}
        return cls(**fields | {"result": value_of(fields["result"])})


class WaitedRunAnswer(StartedAnswer):
    """A start of a job, and its last run once it is over."""

    run: RunAnswer | None = Field(description="null: it is not over")


class RunsAnswer(Answer):
    """Some runs of a job, the newest first."""

    runs: list[RunAnswer]
