"""Prove that the checker finds each violation of S10, and accepts all histories that at-least-once delivery allows."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from chaos import app
from chaos.checker import Finding, judge
from chaos.history import History
from chaos.promises.calls import hash_of
from chaos.run_index import index_run
from chaos.scripted.delivery_violations import KEY, VIOLATIONS, X, called, fired, replaced
from chaos.scripted.good_run import V, Violation, W, good, red
from chaos.scripted.run import ScriptedRun, at, blank


def finding_of(history: History) -> Finding:
    return next(finding for finding in judge(history).findings if finding.promise == "S10")


@pytest.mark.parametrize(("broken", "violation", "told"), VIOLATIONS, ids=[it[1].__name__ for it in VIOLATIONS])
def test_each_violation_breaks_only_s10_and_is_named(broken: str, violation: Violation, told: str) -> None:
    run = good()
    violation(run)

    verdict = judge(run.end())

    assert verdict.status == "invalid"
    assert red(verdict) == {broken}, [finding.shown for finding in verdict.findings if finding.violations]
    (finding,) = (finding for finding in verdict.findings if finding.violations)
    assert finding.violations == 1, finding.shown
    assert told in finding.shown[0]


def a_worker_that_was_declared_dead_goes_on_calling_for_its_lease(run: ScriptedRun) -> None:
    replaced(run)
    run.settle(53.4, X, KEY)
    run.attempt(62.9, KEY)


def a_frozen_worker_calls_when_it_goes_on(run: ScriptedRun) -> None:
    run.fault("freeze", 53.1, 58.0, 5.0, disturbs=False, detail={"worker": W})
    replaced(run)
    run.settle(53.4, X, KEY)
    run.attempt(66.0, KEY)


def a_worker_without_postgres_calls_for_a_lost_claim(run: ScriptedRun) -> None:
    run.fault("store", 53.1, 58.0, 5.0)
    replaced(run)
    run.settle(58.4, X, KEY)
    run.attempt(66.0, KEY)


def a_lease_runs_out(run: ScriptedRun) -> None:
    fired(run)
    called(run)
    called(run, 63.1, worker=X)
    run.settle(63.2, X, KEY)


def a_suspect_is_called_again_within_its_claim(run: ScriptedRun) -> None:
    fired(run)
    called(run)
    run.attempt(53.3, KEY, pid=78)
    run.settle(53.4, W, KEY)


def a_long_call_is_renewed(run: ScriptedRun) -> None:
    fired(run)
    called(run)
    run.commit(56.0, run.deliveries[KEY]._replace(claimed_until=at(66.0)))
    run.settle(57.0, W, KEY)


def a_webhook_does_not_say_which_attempt_it_is(run: ScriptedRun) -> None:
    fired(run)
    run.take(53.01, W, KEY)
    run.attempt(53.02, KEY, attempt=0)
    run.fail(53.1, KEY)
    run.take(53.3, W, KEY)
    run.attempt(53.31, KEY, attempt=0)
    run.settle(53.4, W, KEY, attempt=2)


def a_delivery_given_back_by_a_drained_worker_loses_no_attempt(run: ScriptedRun) -> None:
    fired(run)
    run.take(53.01, W, KEY)
    run.fail(53.1, KEY, times=0)
    called(run, 53.2, worker=X)
    run.settle(53.3, X, KEY)


def a_handler_discards(run: ScriptedRun) -> None:
    fired(run, "discard")
    called(run)
    run.settle(53.1, W, KEY, "DISCARDED")


def a_process_dies_before_its_call_began(run: ScriptedRun) -> None:
    fired(run, "raise")
    run.take(53.01, W, KEY)
    run.fail(53.1, KEY)
    called(run, 53.2, attempt=2)
    run.fail(53.3, KEY)
    called(run, 53.4, attempt=3)
    run.settle(53.5, W, KEY, attempt=3)


FAIR: list[Violation] = [
    a_worker_that_was_declared_dead_goes_on_calling_for_its_lease,
    a_frozen_worker_calls_when_it_goes_on,
    a_worker_without_postgres_calls_for_a_lost_claim,
    a_lease_runs_out,
    a_suspect_is_called_again_within_its_claim,
    a_long_call_is_renewed,
    a_webhook_does_not_say_which_attempt_it_is,
    a_delivery_given_back_by_a_drained_worker_loses_no_attempt,
    a_handler_discards,
    a_process_dies_before_its_call_began,
]


@pytest.mark.parametrize("violation", FAIR, ids=[violation.__name__ for violation in FAIR])
def test_at_least_once_delivery_breaks_no_promise(violation: Violation) -> None:
    run = good()
    violation(run)

    verdict = judge(run.end())

    assert verdict.status == "valid", [*verdict.reasons, *(it.shown for it in verdict.findings if it.violations)]


def test_each_delivery_and_each_call_is_a_case() -> None:
    history = good().end()

    finding = finding_of(history)

    assert (finding.cases, finding.violations) == (3 + len(history.attempts), 0)
    assert len(history.attempts) == 1 + 3 + 8 + 8 + 1


@pytest.mark.parametrize(
    ("key", "told"),
    [(None, f"timer {KEY}: the dead letter is lost"), (852, "timer 852: the dead letter has no failed delivery")],
    ids=["lost", "none"],
)
def test_a_lost_or_an_extra_dead_letter_breaks_s10(key: int | None, told: str) -> None:
    run = good()
    if key is None:
        fired(run, "die")
        for attempt in range(1, 9):
            called(run, 53.0 + attempt / 10, attempt=attempt)
            if attempt < 8:
                run.fail(53.05 + attempt / 10, KEY)
        run.settle(53.9, W, KEY, "DEAD", attempt=8)
    history = run.end()
    history.dead_letters = [] if key is None else [key]

    finding = finding_of(history)

    assert list(finding.shown) == [told]


def test_a_dead_letter_without_a_firing_is_named() -> None:
    history = good().end()
    history.dead_letters = [KEY]

    assert list(finding_of(history).shown) == [f"timer {KEY}: the dead letter has no firing"]


@pytest.mark.parametrize(
    ("spoil", "why"),
    [
        (lambda h: h.attempts.clear(), "no handler recorded a call"),
        (lambda h: h.undelivered.append(3), "the delivery of timer 3 is left only in the table (1 such)"),
        (lambda h: h.undelivered.clear(), f"the delivery of timer {KEY} is left only in the commits (1 such)"),
    ],
    ids=["no calls", "a delivery more", "a delivery less"],
)
def test_an_incomplete_recording_of_deliveries_is_not_valid(spoil: Callable[[History], object], why: str) -> None:
    run = good()
    if "commits" in why:
        fired(run)
    history = run.end()
    spoil(history)

    verdict = judge(history)

    assert why in " ".join(verdict.reasons)
    assert verdict.status == ("invalid" if "commits" in why else "unknown")


def test_a_run_without_deliveries_is_unknown() -> None:
    verdict = judge(blank().end())

    assert verdict.status == "unknown"
    assert "S10 has no case" in verdict.reasons


def test_workers_keep_no_slots_of_timers() -> None:
    # Only changes of shards' slots count, because a takeover among workers is no excuse for late timers.
    run = index_run(good().end())

    assert run.workers.keys() == {V, W}
    assert not run.holders.keys() & run.workers.keys()


def test_the_judge_hashes_a_payload_as_the_handler_does() -> None:
    assert hash_of('{"of": 7, "act": "raise"}') == app.hash_of({"act": "raise", "of": 7})
