"""What is answered about jobs and their runs."""

from datetime import datetime
from typing import Any, Self

from pydantic import Field

from gateway.answers.answer import KEY, Answer, value_of
from sql.jobs.history import JobRun
from sql.jobs.jobs import Job


class JobAnswer(Answer):
    """A job, with all that is known of it."""

    name: str = Field(examples=["refresh"])
    function: str
    state: str = Field(examples=["SCHEDULED"])
    every_s: float | None
    schedule: str | None
    zone: str
    missed: str
    overlap: str
    priority: int
    config: Any
    policy: Any
    next_start: datetime | None
    waiting: int
    retry_at: datetime | None
    run_id: str | None
    run_attempt: int | None
    run_started_at: datetime | None
    progress: float | None
    message: str | None
    last_start: datetime | None
    last_finish: datetime | None
    last_success: datetime | None
    last_outcome: str | None
    last_reason: str | None
    runs: int
    successes: int
    failures: int
    crashes: int
    consecutive_failures: int
    p50_s: float | None
    p99_s: float | None
    disabled_at: datetime | None
    disabled_why: str | None

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
    job: str
    outcome: str | None = Field(description="null: it has not ended")
    attempt: int
    scheduled_at: datetime
    started_at: datetime
    running_at: datetime | None
    ended_at: datetime | None
    duration_s: float | None
    reason: str | None
    traceback: str | None
    result: Any
    progress: float | None
    message: str | None
    log: str | None = Field(description="the last lines that it printed")

    @classmethod
    def of(cls, run: JobRun) -> Self:
        """Make it of what was found."""
        fields = {name: getattr(run, name) for name in cls.model_fields}
        return cls(**fields | {"result": value_of(fields["result"])})


class RunsAnswer(Answer):
    """Some runs of a job, the newest first."""

    runs: list[RunAnswer]
