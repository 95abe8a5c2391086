"""Test when another attempt follows a run, when the next start follows, and which attempts count."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

from shardclock import Canceled, Completed, Discarded, Failed, JobPolicy, RetryLater
from shardclock_server.jobs.next_attempt import CRASH_WAIT_S, RunEnding, StopReason, backoff_s, crash_of, ending_of
from shardclock_server.jobs.states import RunOutcome
from tests.support.jobs import job_policy


def longest(_: float, most: float) -> float:
    """Choose the longest pause in place of a random pause."""
    return most


def ending(outcome: Any, attempt: int = 1, stop_reason: StopReason | None = None, **numbers: Any) -> RunEnding:
    """Decide with a policy that has these numbers, and with the longest pauses."""
    return ending_of(outcome, job_policy(**numbers), attempt=attempt, stop_reason=stop_reason, jitter=longest)


def test_a_run_that_returns_succeeds_and_ends_its_start() -> None:
    assert ending(Completed()) == RunEnding(RunOutcome.SUCCEEDED)
    whole = ending(Completed({"rows": [1, 2]}, "a note"))
    assert (whole.result, whole.reason, whole.fails, whole.delay_s) == ('{"rows": [1, 2]}', "a note", False, None)
    assert json.loads(whole.result or "") == {"rows": [1, 2]}
    assert ending(Discarded("nothing to do")) == RunEnding(RunOutcome.DISCARDED, reason="nothing to do")


def test_a_failed_run_is_retried_until_its_retries_are_used_up() -> None:
    failed = Failed("ValueError: no", "error", "in plain")

    pauses = [ending(failed, attempt, max_retries=3, retry_period_s=30.0).delay_s for attempt in (1, 2, 3, 4)]

    assert pauses == [30.0, 60.0, 120.0, None]
    last = ending(failed, 4, max_retries=3)
    assert (last.outcome, last.fails) == (RunOutcome.FAILED, True)
    assert (last.reason, last.traceback) == ("ValueError: no (attempt 4 of 4)", "in plain")
    assert ending(failed, 1, max_retries=0) == RunEnding(
        RunOutcome.FAILED, fails=True, reason="ValueError: no", traceback="in plain"
    )


def test_a_function_may_choose_the_pause_and_an_invalid_config_is_not_retried() -> None:
    assert ending(RetryLater(7.0, "the source is down")).delay_s == 7.0
    assert ending(RetryLater(7.0, "the source is down"), 4, max_retries=3).delay_s is None
    misfit = ending(Failed("the config does not fit", "payload"))
    assert (misfit.fails, misfit.delay_s) == (True, None)


@pytest.mark.parametrize(
    ("stop_reason", "outcome", "fails", "delay_s"),
    [
        (StopReason.BY_CLIENT, RunOutcome.CANCELED, False, None),
        (None, RunOutcome.CANCELED, False, None),
        (StopReason.BY_TIMEOUT, RunOutcome.TIMED_OUT, True, 30.0),
        (StopReason.BY_DRAIN, RunOutcome.INTERRUPTED, False, 0.0),
    ],
)
def test_the_reason_of_a_request_to_end_decides_the_outcome(
    stop_reason: StopReason | None, outcome: RunOutcome, fails: bool, delay_s: float | None
) -> None:
    stopped = ending(Canceled("it ended on request"), stop_reason=stop_reason, retry_period_s=30.0)

    assert (stopped.outcome, stopped.fails, stopped.delay_s) == (outcome, fails, delay_s)
    assert "it ended on request" in (stopped.reason or "")


def test_a_run_that_returns_after_a_request_to_end_succeeds() -> None:
    assert ending(Completed(), stop_reason=StopReason.BY_TIMEOUT).outcome == RunOutcome.SUCCEEDED


def test_after_a_crash_the_next_attempt_waits_until_the_crashed_run_has_ended() -> None:
    quick, slow = job_policy(retry_period_s=0.1), job_policy(retry_period_s=60.0)

    assert crash_of("died", quick, attempt=1, jitter=longest).delay_s == CRASH_WAIT_S
    assert crash_of("died", quick, attempt=1, may_live_s=9.0, jitter=longest).delay_s == 9.0
    assert crash_of("died", slow, attempt=1, may_live_s=9.0, jitter=longest).delay_s == 60.0
    last = crash_of("died", job_policy(max_retries=1), attempt=2, may_live_s=9.0)
    assert (last.outcome, last.fails, last.delay_s) == (RunOutcome.CRASHED, True, None)
    assert last.rest_s == 9.0, "whichever start comes next waits, too"


@given(attempt=some.integers(1, 10_000), share=some.floats(0, 1), period_s=some.floats(0.1, 86_400))
def test_each_pause_is_between_zero_and_the_maximum(attempt: int, share: float, period_s: float) -> None:
    policy = job_policy(retry_period_s=period_s, retry_max_s=86_400.0)

    pause_s = backoff_s(attempt, policy, jitter=lambda least, most: least + (most - least) * share)

    assert 0 <= pause_s <= 86_400.0
    assert pause_s <= period_s * 2.0 ** min(attempt - 1, 60)


def test_pauses_vary_up_to_their_limit() -> None:
    policy: JobPolicy = job_policy(retry_period_s=10.0)
    pauses = [backoff_s(3, policy) for _ in range(200)]

    assert min(pauses) < 10.0
    assert 30.0 < max(pauses) <= 40.0
