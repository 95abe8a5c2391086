"""Name the states of a job and the outcomes of a run."""

from enum import StrEnum


class JobStateName(StrEnum):
    """Name a job's present state; each change of the state is a log record with the new state as its intent."""

    SCHEDULED = "SCHEDULED"
    STARTING = "STARTING"
    RUNNING = "RUNNING"
    TERMINATING = "TERMINATING"
    DISABLED = "DISABLED"


class RunOutcome(StrEnum):
    """Name the outcome of a run, or of a start that was skipped."""

    SUCCEEDED = "SUCCEEDED"
    DISCARDED = "DISCARDED"  # the function reported that there is nothing to do
    FAILED = "FAILED"
    TIMED_OUT = "TIMED_OUT"
    CANCELED = "CANCELED"
    CRASHED = "CRASHED"
    INTERRUPTED = "INTERRUPTED"  # the worker was drained: the start is attempted again, and this attempt is not counted
    SKIPPED = "SKIPPED"
