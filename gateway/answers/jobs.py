"""What is answered about jobs and their runs."""

from typing import Self

from pydantic import Field

from shardclock.api import jobs
from shardclock.api.answers import Answer
from shardclock_server.gateway.answers.answer import MOMENT_TEXT, examples, value_of
from shardclock_server.sql.jobs.history import JobRun
from shardclock_server.sql.jobs.jobs import Job


class JobAnswer(
    jobs.JobState,
    json_schema_extra=examples(
        name="refresh",
        function="shop.jobs:refresh",
        state="SCHEDULED",
        every_s=900.0,
        zone="UTC",
        missed="fire_once",
        overlap="skip",
        priority=1,
        config={"since": "2027-01-01"},
        policy={"max_runtime_s": 300},
        next_start="2027-01-01T09:00:00Z",
        waiting=0,
        runs=96,
        successes=95,
        failures=1,
        crashes=0,
        consecutive_failures=0,
        consecutive_crashes=0,
        p50_s=41.0,
        p99_s=88.5,
    ),
):
    """A job, with all that is known of it."""

    @classmethod
    def of(cls, job: Job) -> Self:
        """Make it of what was found."""
        fields = {name: getattr(job, name) for name in cls.model_fields}
        return cls(**fields | {name: value_of(fields[name]) for name in ("config", "policy")})


class JobsAnswer(jobs.JobsPage):
    """All jobs, by name."""

    jobs: tuple[JobAnswer, ...]


class JobStateAnswer(Answer):
    """The state that a job has now."""

    state: str = Field(examples=["TERMINATING"])


class StartedAnswer(jobs.Started, json_schema_extra=examples()):
    """A start of a job that was asked for."""


class RunAnswer(
    jobs.JobRun,
    json_schema_extra=examples(
        run_id="4711.2",
        job="refresh",
        outcome="SUCCEEDED",
        attempt=1,
        scheduled_at=MOMENT_TEXT,
        duration_s=41.2,
        result={"rows": 1200},
    ),
):
    """One run of a job, or a start that was skipped."""

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

    runs: tuple[RunAnswer, ...]
