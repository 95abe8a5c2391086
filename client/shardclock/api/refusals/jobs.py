"""The refusals of jobs and their runs."""

from shardclock.api.codes import CONFLICT, NOT_FOUND, REFUSED

UNKNOWN_JOB = NOT_FOUND.specific("unknown_job", "job {job!r} is unknown: {known}")
UNKNOWN_RUN = NOT_FOUND.specific(
    "unknown_run", "run {run!r} is unknown: write it as in the history of its job, such as 4711.2"
)
UNKNOWN_START = NOT_FOUND.specific("unknown_start", "timer {timer_key} is no start of job {job!r}")
START_DROPPED = NOT_FOUND.specific("start_dropped", "the start was dropped before it ran: {why}")
RUNS_FORGOTTEN = NOT_FOUND.specific(
    "runs_forgotten", "the start has ended, and its runs were deleted: {kept} runs of each job are kept"
)
JOB_EXISTS = CONFLICT.specific("job_exists", "job {job!r} exists: remove it first, or choose another name")
JOB_DECLARED = CONFLICT.specific(
    "job_declared", "job {job!r} is declared by the app, which would add it again: disable it"
)
JOB_RUNNING = CONFLICT.specific(
    "job_running", "job {job!r} has a run in progress: disable the job, and remove it when the run has ended"
)
JOB_DISABLED = CONFLICT.specific(
    "job_disabled", "job {job!r} was disabled at {at} ({why}): enable it (shardclock jobs enable)"
)
JOB_WITHDRAWN = CONFLICT.specific(
    "job_withdrawn", "job {job!r} was withdrawn at {at}: start the cluster with the app that declares it"
)
JOB_WITHOUT_RUN = CONFLICT.specific("job_without_run", "job {job!r} has no run to cancel: it is {state}")
JOB_OF_DEFAULT = REFUSED.specific("job_of_default", "job {job!r} belongs to the tenant 'default', as all jobs do")
