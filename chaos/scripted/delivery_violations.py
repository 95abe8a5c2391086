"""Change a valid run so that it violates S10; VIOLATIONS has each change with the expected words of the report.

Each violation concerns timer 861 of bob, which fires at 53.002.
"""

from __future__ import annotations

from chaos.history.changes import DeliveryDeleted, TimerDeleted
from chaos.scripted.good_run import B, Violation, W, aimed, fail_until
from chaos.scripted.run import ScriptedRun

KEY = 861
X = W + 2  # W's successor


def fired(run: ScriptedRun, act: str = "return") -> None:
    run.schedule(52, "bob", aimed(KEY, 53, act))
    run.fire_in_time(B, KEY)


def called(run: ScriptedRun, at_s: float = 53.01, *, worker: int = W, attempt: int = 1) -> None:
    """Let a worker claim the delivery, and call its handler 10 ms later."""
    run.take(at_s, worker, KEY)
    run.attempt(at_s + 0.01, KEY, attempt)


def replaced(run: ScriptedRun) -> None:
    """Let W be declared dead during its call, and its successor take over the delivery."""
    fired(run)
    called(run)
    run.holder(53.2, W, None, ended=True, role="worker")
    run.holder(53.2, X, 1, role="worker")
    called(run, 53.3, worker=X)


def a_firing_leaves_no_delivery(run: ScriptedRun) -> None:
    run.schedule(52, "bob", aimed(KEY, 53))
    run.claim(52.5, B, KEY)
    run.commit(53.002, TimerDeleted(KEY), run.record(53.002, KEY, "TRIGGERED", B))


def a_firing_forgets_its_target(run: ScriptedRun) -> None:
    run.schedule(52, "bob", aimed(KEY, 53))
    run.claim(52.5, B, KEY)
    run.fire(53.002, B, KEY, target="log")


def a_delivery_is_made_without_a_firing(run: ScriptedRun) -> None:
    run.commit(53, run.delivery(KEY, "chaos.async"))


def a_delivery_never_ends(run: ScriptedRun) -> None:
    fired(run)
    called(run)


def a_delivery_vanishes(run: ScriptedRun) -> None:
    fired(run)
    run.commit(53.1, DeliveryDeleted(KEY))


def a_delivery_ends_in_two_ways(run: ScriptedRun) -> None:
    fired(run)
    called(run)
    ends = (run.ending(53.1, W, KEY, intent) for intent in ("DELIVERED", "DISCARDED"))
    run.commit(53.1, DeliveryDeleted(KEY), *ends)


def a_delivery_ends_twice(run: ScriptedRun) -> None:
    fired(run)
    called(run)
    run.settle(53.1, W, KEY)
    run.commit(53.2, run.ending(53.2, W, KEY, "DELIVERED"))


def a_delivery_ends_and_is_still_there(run: ScriptedRun) -> None:
    fired(run)
    called(run)
    run.commit(53.1, run.ending(53.1, W, KEY, "DELIVERED"))
    run.settle(53.2, W, KEY)


def a_worker_ends_a_delivery_that_another_has_claimed(run: ScriptedRun) -> None:
    replaced(run)
    run.settle(53.4, W, KEY)


def a_worker_claims_a_delivery_that_another_has_claimed(run: ScriptedRun) -> None:
    fired(run)
    called(run)
    called(run, 53.1, worker=X)
    run.settle(53.2, X, KEY)


def a_worker_claims_a_delivery_of_a_silent_one(run: ScriptedRun) -> None:
    fired(run)
    called(run)
    run.holder(54.3, W, 1, silent=True, role="worker")
    called(run, 54.4, worker=X)
    run.settle(54.5, X, KEY)


def a_delivery_has_another_worker_without_a_claim(run: ScriptedRun) -> None:
    fired(run)
    called(run)
    run.commit(53.1, run.deliveries[KEY]._replace(claimed_by=X))
    run.settle(53.2, X, KEY)


def an_attempt_fails_without_a_claim(run: ScriptedRun) -> None:
    fired(run, "raise")
    run.fail(53.1, KEY)
    called(run, 53.2, attempt=2)
    run.fail(53.3, KEY)
    called(run, 53.4, attempt=3)
    run.settle(53.5, W, KEY, attempt=3)


def an_attempt_is_left_out(run: ScriptedRun) -> None:
    fired(run, "raise")
    called(run)
    run.fail(53.1, KEY, times=2)
    called(run, 53.2, attempt=3)
    run.settle(53.3, W, KEY, attempt=3)


def a_good_handler_leaves_a_dead_letter(run: ScriptedRun) -> None:
    fired(run)
    called(run)
    run.settle(53.1, W, KEY, "DEAD")


def a_handler_that_always_raises_has_delivered(run: ScriptedRun) -> None:
    fired(run, "die")
    called(run)
    run.settle(53.1, W, KEY, "DELIVERED")


def a_handler_has_delivered_at_an_attempt_that_raises(run: ScriptedRun) -> None:
    fired(run, "raise")
    called(run)
    run.settle(53.1, W, KEY, "DELIVERED")


def a_delivered_timer_is_redriven(run: ScriptedRun) -> None:
    fired(run)
    called(run)
    run.settle(53.1, W, KEY)
    run.redrive(53.2, KEY)
    called(run, 53.3)
    run.settle(53.4, W, KEY)


def a_delivered_timer_is_discarded(run: ScriptedRun) -> None:
    fired(run)
    called(run)
    run.settle(53.1, W, KEY)
    run.commit(53.2, run.ending(53.2, None, KEY, "DISCARDED"))


def a_redriven_dead_letter_is_not_delivered(run: ScriptedRun) -> None:
    fired(run, "die")
    fail_until(run, 53.1, KEY, attempts=8, intent="DEAD")
    run.commit(57.0, run.ending(57.0, None, KEY, "REDRIVEN"))


def a_handler_is_called_before_its_firing(run: ScriptedRun) -> None:
    fired(run)
    run.attempt(52.99, KEY)
    called(run)
    run.settle(53.1, W, KEY)


def a_handler_is_called_with_another_payload(run: ScriptedRun) -> None:
    fired(run)
    run.take(53.01, W, KEY)
    run.attempt(53.02, KEY, body="00")
    run.settle(53.1, W, KEY)


def a_handler_is_called_for_another_tenant(run: ScriptedRun) -> None:
    fired(run)
    run.take(53.01, W, KEY)
    run.attempt(53.02, KEY, tenant_id="ada")
    run.settle(53.1, W, KEY)


def a_handler_is_called_without_a_firing(run: ScriptedRun) -> None:
    fired(run)
    called(run)
    run.attempt(53.05, KEY, timer_key=KEY + 2)
    run.settle(53.1, W, KEY)


def a_webhook_is_sent_before_a_claim(run: ScriptedRun) -> None:
    fired(run)
    run.attempt(53.01, KEY, attempt=0)
    called(run, 53.2)
    run.settle(53.3, W, KEY)


def a_handler_is_called_before_a_claim(run: ScriptedRun) -> None:
    fired(run)
    run.attempt(53.005, KEY)
    called(run, 53.05)
    run.settle(53.1, W, KEY)


def a_handler_is_called_after_the_end(run: ScriptedRun) -> None:
    fired(run)
    called(run)
    run.settle(53.1, W, KEY)
    run.attempt(53.7, KEY)


def a_handler_is_called_between_two_attempts(run: ScriptedRun) -> None:
    fired(run, "raise")
    called(run)
    run.fail(53.1, KEY)
    run.attempt(53.7, KEY)
    called(run, 54.0, attempt=2)
    run.fail(54.1, KEY)
    called(run, 54.7, attempt=3)
    run.settle(54.8, W, KEY, attempt=3)


def a_handler_is_called_with_another_attempt(run: ScriptedRun) -> None:
    fired(run)
    called(run)
    run.attempt(53.05, KEY, 2)
    run.settle(53.1, W, KEY)


def a_handler_is_called_long_after_its_worker_lost_it(run: ScriptedRun) -> None:
    replaced(run)
    run.settle(53.4, X, KEY)
    run.attempt(63.6, KEY)


def the_handler_is_not_called(run: ScriptedRun) -> None:
    fired(run)
    run.take(53.01, W, KEY)
    run.settle(53.1, W, KEY)


def only_a_worker_without_the_claim_calls_the_handler(run: ScriptedRun) -> None:
    fired(run)
    called(run)
    run.holder(53.2, W, None, ended=True, role="worker")
    run.take(55, X, KEY)
    run.settle(55.1, X, KEY)


_TIMER = f"timer {KEY} of bob: "

VIOLATIONS: list[tuple[str, Violation, str]] = [
    ("S10", a_firing_leaves_no_delivery, f"{_TIMER}TRIGGERED by b"),
    ("S10", a_firing_forgets_its_target, "due 08:00:53.000000: the target is log, the request had chaos.async"),
    ("S10", a_delivery_is_made_without_a_firing, f"timer {KEY}: the delivery has no firing"),
    ("S10", a_delivery_never_ends, f"timer {KEY}: the delivery to chaos.async had not ended"),
    ("S10", a_delivery_vanishes, f"timer {KEY}: the delivery was deleted without a record"),
    ("S10", a_delivery_ends_in_two_ways, "the delivery has 2 end records"),
    ("S10", a_delivery_ends_twice, "there was no delivery"),
    ("S10", a_delivery_ends_and_is_still_there, "the delivery still exists"),
    ("S10", a_worker_ends_a_delivery_that_another_has_claimed, f"{_TIMER}DELIVERED by 57 at 08:00:53.400000"),
    ("S10", a_worker_claims_a_delivery_that_another_has_claimed, "59 claimed the delivery, which 57 had claimed"),
    ("S10", a_worker_claims_a_delivery_of_a_silent_one, "59 claimed the delivery, which 57 had claimed"),
    ("S10", a_delivery_has_another_worker_without_a_claim, "59 has the delivery of 57 without a claim"),
    ("S10", an_attempt_fails_without_a_claim, "an attempt ended without a claim"),
    ("S10", an_attempt_is_left_out, "2 attempts have failed, and 0 before the change"),
    ("S10", a_good_handler_leaves_a_dead_letter, "DEAD by 57"),
    ("S10", a_handler_that_always_raises_has_delivered, "ended at attempt 1, but the handler should die"),
    ("S10", a_handler_has_delivered_at_an_attempt_that_raises, "ended at attempt 1, but the handler should raise"),
    (
        "S10",
        a_delivered_timer_is_redriven,
        "REDRIVEN at 08:00:53.200000, due 08:00:53.000000: the delivery was not a dead letter",
    ),
    ("S10", a_delivered_timer_is_discarded, "DISCARDED at 08:00:53.200000"),
    ("S10", a_redriven_dead_letter_is_not_delivered, "no delivery to chaos.async was created"),
    ("S10", a_handler_is_called_before_its_firing, "attempt 1: the firing was committed later, at 08:00:53.002000"),
    ("S10", a_handler_is_called_with_another_payload, 'the payload is not {"act":"return","of":861}'),
    ("S10", a_handler_is_called_for_another_tenant, "the call is for ada, #1; the firing is timer 861 of bob"),
    ("S10", a_handler_is_called_without_a_firing, f"for timer {KEY + 2}, attempt 1: no timer fired for this call"),
    ("S10", a_handler_is_called_before_a_claim, "no worker had claimed the delivery"),
    ("S10", a_webhook_is_sent_before_a_claim, "no worker had claimed the delivery"),
    ("S10", a_handler_is_called_after_the_end, "call at 08:00:53.700000 of chaos.async"),
    ("S10", a_handler_is_called_between_two_attempts, "call at 08:00:53.700000 of chaos.async"),
    ("S10", a_handler_is_called_with_another_attempt, "attempt 2: attempt 1 was due"),
    ("S10", a_handler_is_called_long_after_its_worker_lost_it, "call at 08:01:03.600000 of chaos.async"),
    ("S10", the_handler_is_not_called, "no call of the handler was recorded"),
    ("S10", only_a_worker_without_the_claim_calls_the_handler, "no call of the handler was recorded"),
]
