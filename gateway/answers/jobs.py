"""The response models of jobs and their runs."""

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
    """A job with its settings, its state and its statistics."""

    @classmethod
    def of(cls, job: Job) -> Self:
        """Create the response model from a stored job."""
        fields = {name: getattr(job, name) for name in cls.model_fields}
        return cls(**fields | {name: value_of(fields[name]) for name in ("config", "policy")})


class JobsAnswer(jobs.JobsPage):
    """All jobs, by name."""

    jobs: tuple[JobAnswer, ...]


class JobStateAnswer(Answer):
    """The present state of a job."""

    state: str = Field(examples=["TERMINATING"])


class StartedAnswer(jobs.Started, json_schema_extra=examples()):
    """A requested start of a job."""


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
    """One run of a job, or a skipped start."""

    @classmethod
    def of(cls, run: JobRun) -> Self:
        """Create the response model from a stored run."""
        fields = {name: getattr(run, name) for name in cls.model_fields}
        return cls(**fields | {"result": value_of(fields["result"])})


class WaitedRunAnswer(StartedAnswer):
    """A requested start of a job, and the last run of this start if the start has ended."""

    run: RunAnswer | None = Field(description="the last run of the start; null: the start has not ended")


class RunsAnswer(Answer):
    """A page of a job's runs, the newest first."""

    runs: tuple[RunAnswer, ...]
