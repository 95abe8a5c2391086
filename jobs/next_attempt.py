"""Decide how a job continues after a run: with another attempt of the same start, or with the next start."""

import json
import random
from dataclasses import dataclass, replace
from enum import Enum, auto

from shardclock import CallOutcome, Canceled, Completed, Discarded, Failed, JobPolicy, RetryLater
from shardclock.backoff import Backoff, Jitter
from shardclock_server.jobs.states import RunOutcome

# The minimum pause of a job after a crash of its worker. A job may crash its whole node; the pause gives an operator
# time to disable the job, and the crashed run's processes time to end.
CRASH_WAIT_S = 5.0


class StopReason(Enum):
    """Name the reason for a request to end a run."""

    BY_CLIENT = auto()  # the job was cancelled, disabled or replaced
    BY_TIMEOUT = auto()
    BY_DRAIN = auto()  # the worker shuts down


@dataclass(frozen=True, slots=True)
class RunEnding:
    """The outcome of a run, and the next action for the job.

    shape:   `delay_s` is the pause before the next attempt; None: this start gets no further attempt, and the rule's
             next start follows. For `rest_s` seconds no run of the job starts, not even for another start. `fails`: the
             attempt counts as failed. `result` is JSON text
    """

    outcome: RunOutcome
    fails: bool = False
    delay_s: float | None = None
    reason: str | None = None
    traceback: str | None = None
    result: str | None = None
    rest_s: float = 0.0


def ending_of(
    outcome: CallOutcome,
    policy: JobPolicy,
    *,
    attempt: int,
    stop_reason: StopReason | None = None,
    jitter: Jitter = random.uniform,
) -> RunEnding:
    """Decide how a job continues after a run that ended by itself or on request.

    `stop_reason` is the reason for a request to end the run; None: there was no request.
    """
    match outcome:
        case Completed(result, note):
            text = None if result is None else json.dumps(result)
            return RunEnding(RunOutcome.SUCCEEDED, reason=note, result=text)
        case Discarded(reason):
            return RunEnding(RunOutcome.DISCARDED, reason=reason)
        case RetryLater(delay_s, reason):
            return _failed(RunOutcome.FAILED, policy, attempt, reason, delay_s=delay_s)
        case Failed(reason=reason, kind="payload"):
            return RunEnding(RunOutcome.FAILED, fails=True, reason=reason)
        case Failed(reason=reason, traceback=traceback):
            delay_s = backoff_s(attempt, policy, jitter=jitter)
            return _failed(RunOutcome.FAILED, policy, attempt, reason, delay_s=delay_s, traceback=traceback)
        case Canceled(reason):
            return _stopped(stop_reason, policy, attempt, reason, jitter)


def crash_of(
    reason: str, policy: JobPolicy, *, attempt: int, may_live_s: float = 0.0, jitter: Jitter = random.uniform
) -> RunEnding:
    """Decide how a job continues after a crash of the run's process or worker.

    units:   the run's process may still run for up to `may_live_s`, because a dead worker can't report the end of the
             process
    """
    rest_s = max(may_live_s, CRASH_WAIT_S)
    delay_s = max(rest_s, backoff_s(attempt, policy, jitter=jitter))
    return replace(_failed(RunOutcome.CRASHED, policy, attempt, reason, delay_s=delay_s), rest_s=rest_s)


def backoff_s(attempt: int, policy: JobPolicy, *, jitter: Jitter = random.uniform) -> float:
    """Return the pause after failed `attempt`: exponential, with full jitter."""
    return jitter(0.0, Backoff(policy.retry_period_s, policy.retry_max_s).pause_s(attempt))


def too_long(policy: JobPolicy) -> str:
    """Return the text of the reason for a run that reached its timeout."""
    return f"the run took longer than {policy.max_runtime_s:g} s, its max_runtime"


def _stopped(stop_reason: StopReason | None, policy: JobPolicy, attempt: int, reason: str, jitter: Jitter) -> RunEnding:
    match stop_reason:
        case StopReason.BY_TIMEOUT:
            sentence = f"{too_long(policy)}; {reason}"
            delay_s = backoff_s(attempt, policy, jitter=jitter)
            return _failed(RunOutcome.TIMED_OUT, policy, attempt, sentence, delay_s=delay_s)
        case StopReason.BY_DRAIN:
            return RunEnding(RunOutcome.INTERRUPTED, delay_s=0.0, reason=f"the worker stopped; {reason}")
        case _:
            return RunEnding(RunOutcome.CANCELED, reason=reason)


def _failed(
    outcome: RunOutcome,
    policy: JobPolicy,
    attempt: int,
    reason: str,
    *,
    delay_s: float,
    traceback: str = "",
) -> RunEnding:
    is_last = attempt > policy.max_retries
    if is_last and policy.max_retries:
        reason = f"{reason} (attempt {attempt} of {policy.max_retries + 1})"
    return RunEnding(
        outcome, fails=True, delay_s=None if is_last else delay_s, reason=reason, traceback=traceback or None
    )
