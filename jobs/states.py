"""Name the states of a job, and how a run can end."""

from enum import StrEnum


class JobState(StrEnum):
    """Name what a job does now; each change is a record of the log with this word as its intent."""

    SCHEDULED = "SCHEDULED"
    STARTING = "STARTING"
    RUNNING = "RUNNING"
    TERMINATING = "TERMINATING"
    DISABLED = "DISABLED"


class RunOutcome(StrEnum):
    """Name how a run ended, or that a start was skipped."""

    SUCCEEDED = "SUCCEEDED"
    DISCARDED = "DISCARDED"  # its function said that there is nothing to do
    FAILED = "FAILED"
    TIMED_OUT = "TIMED_OUT"
    CANCELED = "CANCELED"
    CRASHED = "CRASHED"
    INTERRUPTED = "INTERRUPTED"  # its worker left, in order: the start is made again, and nothing counts
    SKIPPED = "SKIPPED"
