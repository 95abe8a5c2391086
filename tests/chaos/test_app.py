"""The app of the rig does what the judge takes for granted, and writes down each call."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from chaos import app
from chaos.acts import COSTLY, DIE, RAISE, WEIGHTS, Act, act_of
from chaos.promises.calling import hash_of
from chaos.running import read_attempts
from chaos.stage import MARK
from shardclock import Completed, Discarded, Failed, Outcome, handlers_of
from shardclock.testing import call

OUTCOMES: dict[str, type[Outcome]] = {"DELIVERED": Completed, "DISCARDED": Discarded, "DEAD": Failed}
ACTS = [*WEIGHTS, *COSTLY]


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Let handlers write into the test's directory."""
    monkeypatch.setenv(MARK, str(tmp_path))
    app._file.cache_clear()
    return tmp_path


def outcome_of(act: Act, attempt: int) -> Outcome:
    payload = {"of": 7, "act": act.name}
    return call(handlers_of(app)[act.target], payload, timer_key=7, tenant_id="ada", attempt=attempt)


@pytest.mark.parametrize("act", ACTS, ids=[f"{act.target} {act.name}" for act in ACTS])
def test_each_act_ends_as_the_judge_expects_and_is_written_down(
    act: Act, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(app, "SLOW_S", 0.0)

    outcome = outcome_of(act, act.attempt)

    assert type(outcome) is OUTCOMES[act.ending]
    (attempt,) = read_attempts(place)
    payload = f'{{"of": 7, "act": "{act.name}"}}'
    assert attempt[:6] == (7, act.target, "ada", 1, act.attempt, hash_of(payload))
    assert abs(attempt.began_at - time.time()) < 60.0
    assert attempt.pid == os.getpid()
    expected = act_of(payload)
    assert (expected.ending, expected.attempt) == (act.ending, act.attempt)


@pytest.mark.parametrize("act", [RAISE, DIE])
def test_what_is_to_fail_fails_before(act: Act, place: Path) -> None:
    outcomes = [outcome_of(act, attempt) for attempt in range(1, act.attempt)]

    assert {type(outcome) for outcome in outcomes} == {Failed}
    assert [attempt.attempt for attempt in read_attempts(place)] == list(range(1, act.attempt))


def test_a_dead_letter_has_had_all_attempts_and_a_slow_call_is_in_time() -> None:
    policies = {target: handler.policy for target, handler in handlers_of(app).items()}

    assert policies.keys() == {act.target for act in ACTS}
    assert all(policy.max_attempts == DIE.attempt for policy in policies.values())
    assert policies["chaos.async"].timeout_s > app.SLOW_S


def test_nobody_was_called_where_nobody_wrote_anything(place: Path) -> None:
    assert read_attempts(place) == []
