"""Prove that the checker sees S10 broken in every way, and calls nothing broken that at least once allows."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from chaos import app
from chaos.checker import Finding, judge
from chaos.delivery_offences import KEY, SEEDS, X, called, fired, replaced
from chaos.good_run import Seed, V, W, good, red
from chaos.history import History
from chaos.lives import follow
from chaos.promises.calling import hash_of
from chaos.tape import Tape, at, blank


def finding_of(history: History) -> Finding:
    return next(finding for finding in judge(history).findings if finding.promise == "S10")


@pytest.mark.parametrize(("broken", "seed", "told"), SEEDS, ids=[it[1].__name__ for it in SEEDS])
def test_each_offence_turns_s10_red_alone_and_is_named(broken: str, seed: Seed, told: str) -> None:
    tape = good()
    seed(tape)

    verdict = judge(tape.end())

    assert verdict.status == "invalid"
    assert red(verdict) == {broken}, [finding.shown for finding in verdict.findings if finding.violations]
    (finding,) = (finding for finding in verdict.findings if finding.violations)
    assert finding.violations == 1, finding.shown
    assert told in finding.shown[0]


def a_worker_that_was_declared_dead_goes_on_calling_for_its_lease(tape: Tape) -> None:
    replaced(tape)
    tape.settle(53.4, X, KEY)
    tape.attempt(62.9, KEY)


def a_frozen_worker_calls_when_it_goes_on(tape: Tape) -> None:
    tape.fault("freeze", 53.1, 58.0, 5.0, disturbs=False, detail={"worker": W})
    replaced(tape)
    tape.settle(53.4, X, KEY)
    tape.attempt(66.0, KEY)


def a_worker_without_postgres_calls_what_it_has_lost(tape: Tape) -> None:
    tape.fault("store", 53.1, 58.0, 5.0)
    replaced(tape)
    tape.settle(58.4, X, KEY)
    tape.attempt(66.0, KEY)


def a_lease_runs_out(tape: Tape) -> None:
    fired(tape)
    called(tape)
    called(tape, 63.1, worker=X)
    tape.settle(63.2, X, KEY)


def a_suspect_is_called_again_within_its_claim(tape: Tape) -> None:
    fired(tape)
    called(tape)
    tape.attempt(53.3, KEY, pid=78)
    tape.settle(53.4, W, KEY)


def a_long_call_is_renewed(tape: Tape) -> None:
    fired(tape)
    called(tape)
    tape.commit(56.0, tape.deliveries[KEY]._replace(claimed_until=at(66.0)))
    tape.settle(57.0, W, KEY)


def a_webhook_does_not_say_which_attempt_it_is(tape: Tape) -> None:
    fired(tape)
    tape.take(53.01, W, KEY)
    tape.attempt(53.02, KEY, attempt=0)
    tape.fail(53.1, KEY)
    tape.take(53.3, W, KEY)
    tape.attempt(53.31, KEY, attempt=0)
    tape.settle(53.4, W, KEY, attempt=2)


def what_a_drained_worker_gives_back_loses_no_attempt(tape: Tape) -> None:
    fired(tape)
    tape.take(53.01, W, KEY)
    tape.fail(53.1, KEY, times=0)
    called(tape, 53.2, worker=X)
    tape.settle(53.3, X, KEY)


def a_handler_discards(tape: Tape) -> None:
    fired(tape, "discard")
    called(tape)
    tape.settle(53.1, W, KEY, "DISCARDED")


def a_process_dies_before_its_call_began(tape: Tape) -> None:
    fired(tape, "raise")
    tape.take(53.01, W, KEY)
    tape.fail(53.1, KEY)
    called(tape, 53.2, attempt=2)
    tape.fail(53.3, KEY)
    called(tape, 53.4, attempt=3)
    tape.settle(53.5, W, KEY, attempt=3)


FAIR: list[Seed] = [
    a_worker_that_was_declared_dead_goes_on_calling_for_its_lease,
    a_frozen_worker_calls_when_it_goes_on,
    a_worker_without_postgres_calls_what_it_has_lost,
    a_lease_runs_out,
    a_suspect_is_called_again_within_its_claim,
    a_long_call_is_renewed,
    a_webhook_does_not_say_which_attempt_it_is,
    what_a_drained_worker_gives_back_loses_no_attempt,
    a_handler_discards,
    a_process_dies_before_its_call_began,
]


@pytest.mark.parametrize("seed", FAIR, ids=[seed.__name__ for seed in FAIR])
def test_what_at_least_once_allows_turns_nothing_red(seed: Seed) -> None:
    tape = good()
    seed(tape)

    verdict = judge(tape.end())

    assert verdict.status == "valid", [*verdict.reasons, *(it.shown for it in verdict.findings if it.violations)]


def test_each_delivery_and_each_call_is_a_case() -> None:
    history = good().end()

    finding = finding_of(history)

    assert (finding.cases, finding.violations) == (3 + len(history.attempts), 0)
    assert len(history.attempts) == 1 + 3 + 8 + 8 + 1


@pytest.mark.parametrize(
    ("key", "told"),
    [(None, f"timer {KEY}: its dead letter is lost"), (852, "timer 852: a dead letter that was none")],
    ids=["lost", "none"],
)
def test_the_dead_letters_are_those_that_died(key: int | None, told: str) -> None:
    tape = good()
    if key is None:
        fired(tape, "die")
        for attempt in range(1, 9):
            called(tape, 53.0 + attempt / 10, attempt=attempt)
            if attempt < 8:
                tape.fail(53.05 + attempt / 10, KEY)
        tape.settle(53.9, W, KEY, "DEAD", attempt=8)
    history = tape.end()
    history.dead_letters = [] if key is None else [key]

    finding = finding_of(history)

    assert list(finding.shown) == [told]


def test_a_dead_letter_of_no_firing_is_named() -> None:
    history = good().end()
    history.dead_letters = [KEY]

    assert list(finding_of(history).shown) == [f"timer {KEY}: a dead letter of no firing"]


@pytest.mark.parametrize(
    ("spoil", "why"),
    [
        (lambda h: h.attempts.clear(), "no handler wrote down a call"),
        (lambda h: h.undelivered.append(3), "the delivery of timer 3 is left only in the table (1 such)"),
        (lambda h: h.undelivered.clear(), f"the delivery of timer {KEY} is left only in the commits (1 such)"),
    ],
    ids=["no calls", "a delivery more", "a delivery less"],
)
def test_a_recording_of_deliveries_with_a_hole_is_not_valid(spoil: Callable[[History], object], why: str) -> None:
    tape = good()
    if "commits" in why:
        fired(tape)
    history = tape.end()
    spoil(history)

    verdict = judge(history)

    assert why in " ".join(verdict.reasons)
    assert verdict.status == ("invalid" if "commits" in why else "unknown")


def test_a_run_without_any_delivery_has_proved_too_little() -> None:
    verdict = judge(blank().end())

    assert verdict.status == "unknown"
    assert "S10 has no case" in verdict.reasons


def test_workers_keep_no_slots_of_timers() -> None:
    # Else a takeover among them would excuse timers that fire late.
    run = follow(good().end())

    assert run.workers.keys() == {V, W}
    assert not run.holders.keys() & run.workers.keys()


def test_the_judge_hashes_a_payload_as_the_handler_does() -> None:
    assert hash_of('{"of": 7, "act": "raise"}') == app.hash_of({"act": "raise", "of": 7})
