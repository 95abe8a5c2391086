"""Prove that the app of the chaos program performs each action as the judge expects, and records each call."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from chaos import app
from chaos.behaviours import COSTLY, DIE, RAISE, WEIGHTS, Behaviour, behaviour_of
from chaos.promises.calls import hash_of
from chaos.running import read_attempts
from chaos.sandbox import DIRECTORY
from shardclock import Completed, Discarded, Failed, Outcome, handlers_of
from shardclock.testing import call

OUTCOMES: dict[str, type[Outcome]] = {"DELIVERED": Completed, "DISCARDED": Discarded, "DEAD": Failed}
BEHAVIOURS = [*WEIGHTS, *COSTLY]


@pytest.fixture(autouse=True)
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Let handlers write into the test's directory."""
    monkeypatch.setenv(DIRECTORY, str(tmp_path))
    app._file.cache_clear()
    return tmp_path


def outcome_of(behaviour: Behaviour, attempt: int) -> Outcome:
    payload = {"of": 7, "act": behaviour.name}
    return call(handlers_of(app)[behaviour.target], payload, timer_key=7, tenant_id="ada", attempt=attempt)


@pytest.mark.parametrize(
    "behaviour", BEHAVIOURS, ids=[f"{behaviour.target} {behaviour.name}" for behaviour in BEHAVIOURS]
)
def test_each_action_ends_as_the_judge_expects_and_is_recorded(
    behaviour: Behaviour, directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(app, "SLOW_S", 0.0)

    outcome = outcome_of(behaviour, behaviour.attempt)

    assert type(outcome) is OUTCOMES[behaviour.ending]
    (attempt,) = read_attempts(directory)
    payload = f'{{"of": 7, "act": "{behaviour.name}"}}'
    assert attempt[:6] == (7, behaviour.target, "ada", 1, behaviour.attempt, hash_of(payload))
    assert abs(attempt.began_at - time.time()) < 60.0
    assert attempt.pid == os.getpid()
    expected = behaviour_of(payload)
    assert (expected.ending, expected.attempt) == (behaviour.ending, behaviour.attempt)


@pytest.mark.parametrize("behaviour", [RAISE, DIE])
def test_a_failing_action_fails_at_each_earlier_attempt(behaviour: Behaviour, directory: Path) -> None:
    outcomes = [outcome_of(behaviour, attempt) for attempt in range(1, behaviour.attempt)]

    assert {type(outcome) for outcome in outcomes} == {Failed}
    assert [attempt.attempt for attempt in read_attempts(directory)] == list(range(1, behaviour.attempt))


def test_a_dead_letter_has_had_all_attempts_and_a_slow_call_ends_before_its_timeout() -> None:
    policies = {target: handler.policy for target, handler in handlers_of(app).items()}

    assert policies.keys() == {behaviour.target for behaviour in BEHAVIOURS}
    assert all(policy.max_attempts == DIE.attempt for policy in policies.values())
    assert policies["chaos.async"].timeout_s > app.SLOW_S


def test_without_a_recorded_call_there_are_no_attempts(directory: Path) -> None:
    assert read_attempts(directory) == []
