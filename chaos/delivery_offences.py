"""Break S10 in a run that went well, in every way; SEEDS says what the report must say of it.

Timer 861 of bob fires at 53.002. What is said of it below is all that goes wrong.
"""

from __future__ import annotations

from chaos.good_run import B, Seed, W, aimed, fail_until
from chaos.history import DeliveryDeleted, TimerDeleted
from chaos.tape import Tape

KEY = 861
X = W + 2  # W's successor


def fired(tape: Tape, act: str = "return") -> None:
    tape.ask(52, "bob", aimed(KEY, 53, act))
    tape.live(B, KEY)


def called(tape: Tape, at_s: float = 53.01, *, worker: int = W, attempt: int = 1) -> None:
    """Let a worker take it, and call its handler 10 ms later."""
    tape.take(at_s, worker, KEY)
    tape.attempt(at_s + 0.01, KEY, attempt)


def replaced(tape: Tape) -> None:
    """Let W be declared dead with the delivery in hand, and its successor take that over."""
    fired(tape)
    called(tape)
    tape.holder(53.2, W, None, ended=True, role="worker")
    tape.holder(53.2, X, 1, role="worker")
    called(tape, 53.3, worker=X)


def a_firing_leaves_no_delivery(tape: Tape) -> None:
    tape.ask(52, "bob", aimed(KEY, 53))
    tape.claim(52.5, B, KEY)
    tape.commit(53.002, TimerDeleted(KEY), tape.record(53.002, KEY, "TRIGGERED", B))


def a_firing_forgets_its_target(tape: Tape) -> None:
    tape.ask(52, "bob", aimed(KEY, 53))
    tape.claim(52.5, B, KEY)
    tape.fire(53.002, B, KEY, target="log")


def a_delivery_comes_from_nowhere(tape: Tape) -> None:
    tape.commit(53, tape.delivery(KEY, "chaos.async"))


def a_delivery_never_ends(tape: Tape) -> None:
    fired(tape)
    called(tape)


def a_delivery_vanishes(tape: Tape) -> None:
    fired(tape)
    tape.commit(53.1, DeliveryDeleted(KEY))


def a_delivery_ends_in_two_ways(tape: Tape) -> None:
    fired(tape)
    called(tape)
    ends = (tape.ending(53.1, W, KEY, intent) for intent in ("DELIVERED", "DISCARDED"))
    tape.commit(53.1, DeliveryDeleted(KEY), *ends)


def a_delivery_ends_twice(tape: Tape) -> None:
    fired(tape)
    called(tape)
    tape.settle(53.1, W, KEY)
    tape.commit(53.2, tape.ending(53.2, W, KEY, "DELIVERED"))


def a_delivery_ends_and_is_still_there(tape: Tape) -> None:
    fired(tape)
    called(tape)
    tape.commit(53.1, tape.ending(53.1, W, KEY, "DELIVERED"))
    tape.settle(53.2, W, KEY)


def a_worker_ends_what_another_has_in_hand(tape: Tape) -> None:
    replaced(tape)
    tape.settle(53.4, W, KEY)


def a_worker_takes_what_another_has_in_hand(tape: Tape) -> None:
    fired(tape)
    called(tape)
    called(tape, 53.1, worker=X)
    tape.settle(53.2, X, KEY)


def a_worker_takes_what_a_silent_one_has_in_hand(tape: Tape) -> None:
    fired(tape)
    called(tape)
    tape.holder(54.3, W, 1, silent=True, role="worker")
    called(tape, 54.4, worker=X)
    tape.settle(54.5, X, KEY)


def a_delivery_changes_hands_without_a_claim(tape: Tape) -> None:
    fired(tape)
    called(tape)
    tape.commit(53.1, tape.deliveries[KEY]._replace(claimed_by=X))
    tape.settle(53.2, X, KEY)


def an_attempt_fails_that_nobody_made(tape: Tape) -> None:
    fired(tape, "raise")
    tape.fail(53.1, KEY)
    called(tape, 53.2, attempt=2)
    tape.fail(53.3, KEY)
    called(tape, 53.4, attempt=3)
    tape.settle(53.5, W, KEY, attempt=3)


def an_attempt_is_left_out(tape: Tape) -> None:
    fired(tape, "raise")
    called(tape)
    tape.fail(53.1, KEY, times=2)
    called(tape, 53.2, attempt=3)
    tape.settle(53.3, W, KEY, attempt=3)


def a_good_handler_leaves_a_dead_letter(tape: Tape) -> None:
    fired(tape)
    called(tape)
    tape.settle(53.1, W, KEY, "DEAD")


def a_handler_that_always_raises_has_delivered(tape: Tape) -> None:
    fired(tape, "die")
    called(tape)
    tape.settle(53.1, W, KEY, "DELIVERED")


def a_handler_has_delivered_at_an_attempt_that_raises(tape: Tape) -> None:
    fired(tape, "raise")
    called(tape)
    tape.settle(53.1, W, KEY, "DELIVERED")


def what_was_delivered_is_redriven(tape: Tape) -> None:
    fired(tape)
    called(tape)
    tape.settle(53.1, W, KEY)
    tape.redrive(53.2, KEY)
    called(tape, 53.3)
    tape.settle(53.4, W, KEY)


def what_was_delivered_is_discarded(tape: Tape) -> None:
    fired(tape)
    called(tape)
    tape.settle(53.1, W, KEY)
    tape.commit(53.2, tape.ending(53.2, None, KEY, "DISCARDED"))


def a_redriven_dead_letter_is_not_delivered(tape: Tape) -> None:
    fired(tape, "die")
    fail_until(tape, 53.1, KEY, attempts=8, intent="DEAD")
    tape.commit(57.0, tape.ending(57.0, None, KEY, "REDRIVEN"))


def a_handler_is_called_before_its_firing(tape: Tape) -> None:
    fired(tape)
    tape.attempt(52.99, KEY)
    called(tape)
    tape.settle(53.1, W, KEY)


def a_handler_is_called_with_another_payload(tape: Tape) -> None:
    fired(tape)
    tape.take(53.01, W, KEY)
    tape.attempt(53.02, KEY, body="00")
    tape.settle(53.1, W, KEY)


def a_handler_is_called_for_another_tenant(tape: Tape) -> None:
    fired(tape)
    tape.take(53.01, W, KEY)
    tape.attempt(53.02, KEY, tenant_id="ada")
    tape.settle(53.1, W, KEY)


def a_handler_is_called_for_nothing(tape: Tape) -> None:
    fired(tape)
    called(tape)
    tape.attempt(53.05, KEY, timer_key=KEY + 2)
    tape.settle(53.1, W, KEY)


def a_webhook_is_sent_before_anybody_has_claimed_it(tape: Tape) -> None:
    fired(tape)
    tape.attempt(53.01, KEY, attempt=0)
    called(tape, 53.2)
    tape.settle(53.3, W, KEY)


def a_handler_is_called_before_anybody_has_claimed_it(tape: Tape) -> None:
    fired(tape)
    tape.attempt(53.005, KEY)
    called(tape, 53.05)
    tape.settle(53.1, W, KEY)


def a_handler_is_called_after_the_end(tape: Tape) -> None:
    fired(tape)
    called(tape)
    tape.settle(53.1, W, KEY)
    tape.attempt(53.7, KEY)


def a_handler_is_called_between_two_attempts(tape: Tape) -> None:
    fired(tape, "raise")
    called(tape)
    tape.fail(53.1, KEY)
    tape.attempt(53.7, KEY)
    called(tape, 54.0, attempt=2)
    tape.fail(54.1, KEY)
    called(tape, 54.7, attempt=3)
    tape.settle(54.8, W, KEY, attempt=3)


def a_handler_is_told_another_attempt(tape: Tape) -> None:
    fired(tape)
    called(tape)
    tape.attempt(53.05, KEY, 2)
    tape.settle(53.1, W, KEY)


def a_handler_is_called_long_after_its_worker_lost_it(tape: Tape) -> None:
    replaced(tape)
    tape.settle(53.4, X, KEY)
    tape.attempt(63.6, KEY)


def nobody_calls_the_handler(tape: Tape) -> None:
    fired(tape)
    tape.take(53.01, W, KEY)
    tape.settle(53.1, W, KEY)


def only_the_worker_that_lost_it_calls_the_handler(tape: Tape) -> None:
    fired(tape)
    called(tape)
    tape.holder(53.2, W, None, ended=True, role="worker")
    tape.take(55, X, KEY)
    tape.settle(55.1, X, KEY)


_TIMER = f"timer {KEY} of bob: "

SEEDS: list[tuple[str, Seed, str]] = [
    ("S10", a_firing_leaves_no_delivery, f"{_TIMER}TRIGGERED by b"),
    ("S10", a_firing_forgets_its_target, "due 08:00:53.000000: for log, asked for chaos.async"),
    ("S10", a_delivery_comes_from_nowhere, f"timer {KEY}: a delivery, and nothing fired"),
    ("S10", a_delivery_never_ends, f"timer {KEY}: its delivery to chaos.async had no end"),
    ("S10", a_delivery_vanishes, f"timer {KEY}: its delivery is gone without a record"),
    ("S10", a_delivery_ends_in_two_ways, "it ended in 2 ways"),
    ("S10", a_delivery_ends_twice, "there was no delivery"),
    ("S10", a_delivery_ends_and_is_still_there, "its delivery is still there"),
    ("S10", a_worker_ends_what_another_has_in_hand, f"{_TIMER}DELIVERED by 57 at 08:00:53.400000"),
    ("S10", a_worker_takes_what_another_has_in_hand, "59 took its delivery, which 57 had in hand"),
    ("S10", a_worker_takes_what_a_silent_one_has_in_hand, "59 took its delivery, which 57 had in hand"),
    ("S10", a_delivery_changes_hands_without_a_claim, "59 has its delivery from 57 without a claim"),
    ("S10", an_attempt_fails_that_nobody_made, "an attempt was settled that nobody had in hand"),
    ("S10", an_attempt_is_left_out, "2 attempts failed, just now it was 0"),
    ("S10", a_good_handler_leaves_a_dead_letter, "DEAD by 57"),
    ("S10", a_handler_that_always_raises_has_delivered, "at attempt 1, and its handler was to die"),
    ("S10", a_handler_has_delivered_at_an_attempt_that_raises, "at attempt 1, and its handler was to raise"),
    ("S10", what_was_delivered_is_redriven, "REDRIVEN at 08:00:53.200000, due 08:00:53.000000: it was no dead letter"),
    ("S10", what_was_delivered_is_discarded, "DISCARDED at 08:00:53.200000"),
    ("S10", a_redriven_dead_letter_is_not_delivered, "it left no delivery to chaos.async"),
    ("S10", a_handler_is_called_before_its_firing, "attempt 1: its firing was committed at 08:00:53.002000"),
    ("S10", a_handler_is_called_with_another_payload, 'another payload than {"act":"return","of":861}'),
    ("S10", a_handler_is_called_for_another_tenant, "told it is of ada, #1; what fired is timer 861 of bob"),
    ("S10", a_handler_is_called_for_nothing, f"for timer {KEY + 2}, attempt 1: nothing fired for it"),
    ("S10", a_handler_is_called_before_anybody_has_claimed_it, "no worker had it in hand"),
    ("S10", a_webhook_is_sent_before_anybody_has_claimed_it, "no worker had it in hand"),
    ("S10", a_handler_is_called_after_the_end, "call at 08:00:53.700000 of chaos.async"),
    ("S10", a_handler_is_called_between_two_attempts, "call at 08:00:53.700000 of chaos.async"),
    ("S10", a_handler_is_told_another_attempt, "attempt 2: it was the turn of attempt 1"),
    ("S10", a_handler_is_called_long_after_its_worker_lost_it, "call at 08:01:03.600000 of chaos.async"),
    ("S10", nobody_calls_the_handler, "nobody had called its handler"),
    ("S10", only_the_worker_that_lost_it_calls_the_handler, "nobody had called its handler"),
]
