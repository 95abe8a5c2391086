"""Decide what follows a run: another attempt of its start, or the next start."""

import json
import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import Enum, auto

from shardclock import CallOutcome, Canceled, Completed, Discarded, Failed, JobPolicy, RetryLater
from shardclock_server.jobs.states import RunOutcome

# After a crash of its worker a job waits this long at least: so that an operator can disable a job that takes the node
# down with it, and so that whatever is left of the crashed run has ended.
CRASH_WAIT_S = 5.0

Jitter = Callable[[float, float], float]


class Asked(Enum):
    """Name why a run was told to end."""

    BY_CLIENT = auto()  # it was cancelled, disabled or replaced
    BY_TIMEOUT = auto()
    BY_DRAIN = auto()  # its worker leaves


@dataclass(frozen=True, slots=True)
class Ending:
    """How a run ended, and what follows.

    shape:   `delay_s` is the pause before the next attempt; None: this start is over, and the next one follows. For
             `rest_s` no run of the job begins, whichever start it is for. `fails` says whether the attempt counts.
             `result` is JSON text
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
    asked: Asked | None = None,
    jitter: Jitter = random.uniform,
) -> Ending:
    """Decide what follows a run that ended by itself, or because it was told to."""
    match outcome:
        case Completed(result, note):
            text = None if result is None else json.dumps(result)
            return Ending(RunOutcome.SUCCEEDED, reason=note, result=text)
        case Discarded(reason):
            return Ending(RunOutcome.DISCARDED, reason=reason)
        case RetryLater(delay_s, reason):
            return _failed(RunOutcome.FAILED, policy, attempt, reason, delay_s=delay_s)
        case Failed(reason=reason, kind="payload"):
            return Ending(RunOutcome.FAILED, fails=True, reason=reason)
        case Failed(reason=reason, traceback=traceback):
            delay_s = backoff_s(attempt, policy, jitter=jitter)
            return _failed(RunOutcome.FAILED, policy, attempt, reason, delay_s=delay_s, traceback=traceback)
        case Canceled(reason):
            return _told_to_end(asked, policy, attempt, reason, jitter)


def crash_of(
    reason: str, policy: JobPolicy, *, attempt: int, may_live_s: float = 0.0, jitter: Jitter = random.uniform
) -> Ending:
    """Decide what follows a run whose process or worker died.

    units:   `may_live_s` is for how long the run's process may still be alive, as its worker can't be asked
    """
    rest_s = max(may_live_s, CRASH_WAIT_S)
    delay_s = max(rest_s, backoff_s(attempt, policy, jitter=jitter))
    return replace(_failed(RunOutcome.CRASHED, policy, attempt, reason, delay_s=delay_s), rest_s=rest_s)


def backoff_s(attempt: int, policy: JobPolicy, *, jitter: Jitter = random.uniform) -> float:
    """Return the pause after failed `attempt`: exponential, with full jitter."""
    return jitter(0.0, min(policy.retry_max_s, policy.retry_period_s * 2.0 ** min(attempt - 1, 60)))


def too_long(policy: JobPolicy) -> str:
    """Say why a run is told to end that has taken too long."""
    return f"it took longer than {policy.max_runtime_s:g} s, its max_runtime"


def _told_to_end(asked: Asked | None, policy: JobPolicy, attempt: int, reason: str, jitter: Jitter) -> Ending:
    match asked:
        case Asked.BY_TIMEOUT:
            said = f"{too_long(policy)}; {reason}"
            delay_s = backoff_s(attempt, policy, jitter=jitter)
            return _failed(RunOutcome.TIMED_OUT, policy, attempt, said, delay_s=delay_s)
        case Asked.BY_DRAIN:
            return Ending(RunOutcome.INTERRUPTED, delay_s=0.0, reason=f"its worker left; {reason}")
        case _:
            return Ending(RunOutcome.CANCELED, reason=reason)


def _failed(
    outcome: RunOutcome,
    policy: JobPolicy,
    attempt: int,
    reason: str,
    *,
    delay_s: float,
    traceback: str = "",
) -> Ending:
    is_last = attempt > policy.max_retries
    if is_last and policy.max_retries:
        reason = f"{reason} (attempt {attempt} of {policy.max_retries + 1})"
    return Ending(outcome, fails=True, delay_s=None if is_last else delay_s, reason=reason, traceback=traceback or None)
