"""What follows a run: another attempt after a pause, or the next start; and what counts."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

from shardclock import Canceled, Completed, Discarded, Failed, JobPolicy, RetryLater
from shardclock_server.jobs.ending import CRASH_WAIT_S, Asked, Ending, backoff_s, crash_of, ending_of
from shardclock_server.jobs.states import RunOutcome
from tests.support.jobs import job_policy


def longest(_: float, most: float) -> float:
    """Play chance at its slowest."""
    return most


def ending(outcome: Any, attempt: int = 1, asked: Asked | None = None, **numbers: Any) -> Ending:
    """Decide with a policy of these numbers, and the longest pauses."""
    return ending_of(outcome, job_policy(**numbers), attempt=attempt, asked=asked, jitter=longest)


def test_a_run_that_returned_succeeded_and_its_start_is_over() -> None:
    assert ending(Completed()) == Ending(RunOutcome.SUCCEEDED)
    whole = ending(Completed({"rows": [1, 2]}, "a note"))
    assert (whole.result, whole.reason, whole.fails, whole.delay_s) == ('{"rows": [1, 2]}', "a note", False, None)
    assert json.loads(whole.result or "") == {"rows": [1, 2]}
    assert ending(Discarded("nothing to do")) == Ending(RunOutcome.DISCARDED, reason="nothing to do")


def test_a_run_that_failed_is_tried_again_until_its_retries_are_used_up() -> None:
    failed = Failed("ValueError: no", "error", "in plain")

    pauses = [ending(failed, attempt, max_retries=3, retry_period_s=30.0).delay_s for attempt in (1, 2, 3, 4)]

    assert pauses == [30.0, 60.0, 120.0, None]
    last = ending(failed, 4, max_retries=3)
    assert (last.outcome, last.fails) == (RunOutcome.FAILED, True)
    assert (last.reason, last.traceback) == ("ValueError: no (attempt 4 of 4)", "in plain")
    assert ending(failed, 1, max_retries=0) == Ending(
        RunOutcome.FAILED, fails=True, reason="ValueError: no", traceback="in plain"
    )


def test_a_function_may_choose_the_pause_and_a_config_that_does_not_fit_is_not_tried_again() -> None:
    assert ending(RetryLater(7.0, "the source is down")).delay_s == 7.0
    assert ending(RetryLater(7.0, "the source is down"), 4, max_retries=3).delay_s is None
    misfit = ending(Failed("the config does not fit", "payload"))
    assert (misfit.fails, misfit.delay_s) == (True, None)


@pytest.mark.parametrize(
    ("asked", "outcome", "fails", "delay_s"),
    [
        (Asked.BY_CLIENT, RunOutcome.CANCELED, False, None),
        (None, RunOutcome.CANCELED, False, None),
        (Asked.BY_TIMEOUT, RunOutcome.TIMED_OUT, True, 30.0),
        (Asked.BY_DRAIN, RunOutcome.INTERRUPTED, False, 0.0),
    ],
)
def test_a_run_that_was_told_to_end_ends_as_why_it_was_told(
    asked: Asked | None, outcome: RunOutcome, fails: bool, delay_s: float | None
) -> None:
    told = ending(Canceled("it ended when it was told to"), asked=asked, retry_period_s=30.0)

    assert (told.outcome, told.fails, told.delay_s) == (outcome, fails, delay_s)
    assert "it ended when it was told to" in (told.reason or "")


def test_a_run_that_returned_although_it_was_told_to_end_succeeded() -> None:
    assert ending(Completed(), asked=Asked.BY_TIMEOUT).outcome == RunOutcome.SUCCEEDED


def test_after_a_crash_the_next_attempt_waits_until_nothing_is_left_of_the_crashed_run() -> None:
    quick, slow = job_policy(retry_period_s=0.1), job_policy(retry_period_s=60.0)

    assert crash_of("died", quick, attempt=1, jitter=longest).delay_s == CRASH_WAIT_S
    assert crash_of("died", quick, attempt=1, may_live_s=9.0, jitter=longest).delay_s == 9.0
    assert crash_of("died", slow, attempt=1, may_live_s=9.0, jitter=longest).delay_s == 60.0
    last = crash_of("died", job_policy(max_retries=1), attempt=2, may_live_s=9.0)
    assert (last.outcome, last.fails, last.delay_s) == (RunOutcome.CRASHED, True, None)
    assert last.rest_s == 9.0, "whichever start comes next waits, too"


@given(attempt=some.integers(1, 10_000), share=some.floats(0, 1), period_s=some.floats(0.1, 86_400))
def test_no_pause_is_longer_than_the_longest_or_negative(attempt: int, share: float, period_s: float) -> None:
    policy = job_policy(retry_period_s=period_s, retry_max_s=86_400.0)

    pause_s = backoff_s(attempt, policy, jitter=lambda least, most: least + (most - least) * share)

    assert 0 <= pause_s <= 86_400.0
    assert pause_s <= period_s * 2.0 ** min(attempt - 1, 60)


def test_a_pause_is_anything_up_to_its_limit() -> None:
    policy: JobPolicy = job_policy(retry_period_s=10.0)
    pauses = [backoff_s(3, policy) for _ in range(200)]

    assert min(pauses) < 10.0
    assert 30.0 < max(pauses) <= 40.0
