"""The answers about jobs and their runs."""

from datetime import datetime
from typing import Any

from pydantic import Field

from shardclock.api.answers import Answer


class JobState(Answer):
    """A job with its settings, its state and its counts.

    shape:   a job with a `paused_start` does not run until that start is resumed
    """

    name: str
    function: str
    state: str
    every_s: float | None
    schedule: str | None
    zone: str
    missed: str
    overlap: str
    priority: int
    config: Any
    policy: Any
    next_start: datetime | None = Field(
        description="the next start; null: there is none, the start is paused, or the rule is not planned yet"
    )
    paused_start: datetime | None = Field(
        description="the time of a paused next start; null: the next start is not paused"
    )
    paused_until: datetime | None = Field(
        None, description="the end of the next start's pause; null: the pause lasts until a resume"
    )
    paused_at: datetime | None
    paused_why: str | None
    paused_by: str | None
    waiting: int
    retry_at: datetime | None
    run_id: str | None
    run_attempt: int | None
    run_started_at: datetime | None
    cancel_why: str | None = Field(description="the reason why the present run must end")
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
    consecutive_crashes: int
    p50_s: float | None
    p99_s: float | None
    disabled_at: datetime | None
    disabled_why: str | None
    disabled_by: str | None
    withdrawn_at: datetime | None = Field(
        description="the time since which no app has the job's function; `state` is then DISABLED"
    )


class JobRun(Answer):
    """One run of a job.

    shape:   `outcome` is the run's outcome, such as SUCCEEDED; `result` is the result of the job's function
    """

    run_id: str
    job: str
    outcome: str | None = Field(description="the end of the run; null: the run has not ended")
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
    log: str | None = Field(description="the last lines that the run printed")


class Started(Answer):
    """The key of a requested start."""

    timer_key: int


class JobsPage(Answer):
    """All jobs."""

    jobs: tuple[JobState, ...]
