"""Prove that the checker sees each promise of processes broken, and calls nothing broken that is allowed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from chaos.checker import EXERCISED, PROCESSES, judge
from chaos.good_run import FAR_S, Seed, W, good, red
from chaos.history import DeliveryDeleted
from chaos.process_offences import KEY, SEEDS, race
from chaos.process_tape import ENGINE, Player, Race, told, waiting
from chaos.tape import Tape, blank


@pytest.mark.parametrize(("broken", "seed", "told"), SEEDS, ids=[it[1].__name__ for it in SEEDS])
def test_each_offence_turns_its_promise_red_alone_and_is_named(broken: str, seed: Seed, told: str) -> None:
    tape = good()
    seed(tape)

    verdict = judge(tape.end())

    assert verdict.status == "invalid"
    found = {finding.promise: finding for finding in verdict.findings if finding.violations}
    assert found.keys() == set(broken.split()), [finding.shown for finding in found.values()]
    for finding in found.values():
        assert finding.violations == 1, finding.shown
    assert told in found[next(iter(broken.split()))].shown[0]


def a_start_is_sent_again_after_its_answer_was_lost(tape: Tape) -> None:
    Race.begun(tape, 58.0, KEY, due_s=FAR_S).approved(58.2, W)
    starts = [number for number, call in enumerate(tape.history.calls) if call.verb == "start"]
    first = tape.history.calls[starts[-1]]
    tape.history.calls[starts[-1]] = replace(first, outcome="unknown", instance_key=None)
    tape.history.calls.append(replace(first, resends=first.number))


def a_completion_is_sent_again_after_its_answer_was_lost(tape: Tape) -> None:
    it = race(tape)
    it.approved(58.1, W)
    (done,) = (call for call in tape.history.calls if call.verb == "complete" and call.instance_key == KEY)
    tape.history.calls.remove(done)
    tape.history.calls += [
        replace(done, outcome="unknown", answer=None),
        replace(done, answer="NOT_FOUND", resends=done.number, began_at=done.began_at + 1, ended_at=done.began_at + 2),
    ]


def a_start_is_refused(tape: Tape) -> None:
    Player(tape, KEY, "chaos-race").call(58.0, "start", outcome="fail", instance_key=None)


def a_client_gives_up_before_its_message_is_published(tape: Tape) -> None:
    player = waiting(tape, 58.0, KEY)
    player.call(58.1, "publish", outcome="unknown")


def a_worker_calls_for_a_service_task_whose_instance_was_cancelled(tape: Tape) -> None:
    it = race(tape)
    job = it.canceled_at_work(58.1, W)
    it.player.attempt(59.9, job.timer_key, job)


def a_service_task_that_was_locked_is_taken_away_after_its_instance_s_end(tape: Tape) -> None:
    it = race(tape)
    player, job = it.player, it.handed_on(58.1)
    cancel = player.signal(58.2, "cancel")
    player.call(58.2, "stop", "SENT")
    player.step(58.22, [told(cancel, "cancel")], "3 chargex 1 chaos-racex", outcome="CANCELED")
    closed = player.signal(58.23, "closed")
    player.late(58.72, closed, DeliveryDeleted(job), player.ending(58.72, job, "DISCARDED", ENGINE))


def two_cancels_come_at_once(tape: Tape) -> None:
    player = waiting(tape, 58.0, KEY)
    signals = [player.signal(58.1 + n / 100, "cancel") for n in range(2)]
    player.call(58.12, "stop", "SENT")
    first, second = (told(key, "cancel") for key in signals)
    said = [first, second | {"stale": True}]
    player.step(58.14, said, "3 paidx 1 chaos-messagex", outcome="CANCELED")


@pytest.mark.parametrize(
    "seed",
    [
        a_start_is_sent_again_after_its_answer_was_lost,
        a_completion_is_sent_again_after_its_answer_was_lost,
        a_start_is_refused,
        a_client_gives_up_before_its_message_is_published,
        a_worker_calls_for_a_service_task_whose_instance_was_cancelled,
        a_service_task_that_was_locked_is_taken_away_after_its_instance_s_end,
        two_cancels_come_at_once,
    ],
    ids=lambda seed: seed.__name__,
)
def test_what_is_allowed_is_not_called_broken(seed: Seed) -> None:
    tape = good()
    seed(tape)

    verdict = judge(tape.end(), exercised=EXERCISED | PROCESSES)

    assert red(verdict) == set(), [finding.shown for finding in verdict.findings if finding.violations]
    assert verdict.status == "valid", verdict.reasons


def test_a_run_that_was_to_have_processes_and_had_none_is_unknown() -> None:
    verdict = judge(blank().end(), exercised=PROCESSES)

    assert verdict.status == "unknown"
    assert "P4 has no case" in verdict.reasons


def test_an_instance_or_a_task_that_only_the_table_has_is_a_hole() -> None:
    history = good().end()
    history.running.append(7)
    history.open_tasks.append(9)

    verdict = judge(history)

    assert verdict.status == "unknown"
    assert [reason for reason in verdict.reasons if "left only in the table" in reason] == [
        "the recording is incomplete: instance 7 is left only in the table (1 such)",
        "the recording is incomplete: task 9 is left only in the table (1 such)",
    ]
