"""Prove that the checker sees each promise broken: a check that can't turn red checks nothing."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from chaos.checker import judge
from chaos.delivery_offences import SEEDS as DELIVERY_SEEDS
from chaos.good_run import A, B, Seed, good, red, schedule, timer
from chaos.history import History, Recorded
from chaos.offences import SEEDS, a_timer_is_late, occurrences_come_in_another_order
from chaos.process_offences import SEEDS as PROCESS_SEEDS
from chaos.promises import PROMISES


def test_a_run_in_which_all_went_well_is_valid() -> None:
    verdict = judge(good().end())

    assert verdict.reasons == []
    assert verdict.status == "valid"
    assert [finding.promise for finding in verdict.findings] == [promise.promise for promise in PROMISES]
    assert all(finding.cases for finding in verdict.findings)
    cases = {finding.promise: finding.cases for finding in verdict.findings}
    assert (cases["S3"], cases["L4"], cases["T1"]) == (23, 2 * 36, 2)


@pytest.mark.parametrize(("broken", "seed", "told"), SEEDS, ids=[f"{it[0]} {it[1].__name__}" for it in SEEDS])
def test_a_broken_promise_turns_red_alone_and_names_the_offender(broken: str, seed: Seed, told: str) -> None:
    tape = good()
    seed(tape)

    verdict = judge(tape.end())

    assert verdict.status == "invalid"
    assert red(verdict) == set(broken.split()), [finding.shown for finding in verdict.findings if finding.violations]
    for finding in verdict.findings:
        if finding.violations:
            assert finding.violations == 1 or seed is occurrences_come_in_another_order
            assert told in finding.shown[0]


@pytest.mark.parametrize(
    ("spoil", "told"),
    [
        (lambda h: h.reads.append(h.reads[-1]), "second reader: read"),
        (lambda h: h.reads.remove(h.reads[10]), "first reader: never read"),
        (lambda h: h.reads.insert(0, h.reads.pop(2)), "first reader: read"),
    ],
    ids=["one twice", "one never", "two the other way round"],
)
def test_a_reader_that_gets_records_otherwise_than_once_in_order_breaks_l4(
    spoil: Callable[[History], object], told: str
) -> None:
    history = good().end()
    spoil(history)

    verdict = judge(history)

    assert red(verdict) == {"L4"}
    assert told in next(finding.shown[0] for finding in verdict.findings if finding.violations)


def test_records_of_one_timer_in_another_order_than_its_commits_break_l4() -> None:
    history = good().end()
    records = [it for commit in history.commits for it in commit.changes if isinstance(it, Recorded)]
    moved = next(it for it in records if it.intent == "RESCHEDULED")
    fired = next(it for it in records if it.timer_key == moved.timer_key and it.intent == "TRIGGERED")
    placed = {moved: moved._replace(position=fired.position), fired: fired._replace(position=moved.position)}
    history.commits = [
        commit._replace(changes=tuple(placed.get(it, it) if isinstance(it, Recorded) else it for it in commit.changes))
        for commit in history.commits
    ]

    verdict = judge(history)

    assert red(verdict) == {"L4"}
    told = next(finding.shown[0] for finding in verdict.findings if finding.violations)
    assert told == f"timer {moved.timer_key}: TRIGGERED stands before the RESCHEDULED that it followed"


def test_an_occurrence_that_fires_under_two_keys_breaks_s3() -> None:
    tape = good()
    schedule(tape, 45, timer(800, rule="R2/PT1S", name="double"), 46.002)
    tape.live(A, 800, tape.next_of(800, 802, 47.002), tape.next_of(800, 804, 47.002))
    tape.live(A, 802)
    tape.live(A, 804)

    finding = next(it for it in judge(tape.end()).findings if it.promise == "S3")

    assert finding.violations == 1
    assert "timer 804 of ada/double #2" in finding.shown[0]


@pytest.mark.parametrize(("fired_s", "broken"), [(52.5, set[str]()), (58.0, {"S1"})])
def test_a_record_that_was_written_while_the_clock_was_set_back_is_not_early(fired_s: float, broken: set[str]) -> None:
    tape = good()
    tape.ask(45, "bob", timer(701, 70))
    tape.fault("clock", 50, 52, 5.0, detail={"offset_s": 3600.0})
    tape.claim(49, B, 701)
    tape.fire(fired_s, B, 701)

    assert red(judge(tape.end())) & {"S1"} == broken


def test_each_promise_that_is_built_has_a_seed() -> None:
    seeded = {promise for broken, _, _ in (*SEEDS, *DELIVERY_SEEDS, *PROCESS_SEEDS) for promise in broken.split()} | {
        "L4"
    }

    assert seeded == {promise.promise for promise in PROMISES if promise.check}


def test_a_fault_that_is_not_to_disturb_anybody_excuses_nothing() -> None:
    tape = good()
    tape.fault("lock", 49, 52, 5.0, disturbs=False)
    a_timer_is_late(tape)

    assert red(judge(tape.end())) == {"L1"}


@pytest.mark.parametrize(("key", "due_s"), [(704, 51.0), (701, 54.0)], ids=["another's slot", "kept again"])
def test_only_a_lost_shards_timers_go_the_long_way_and_only_until_there_is_another(key: int, due_s: float) -> None:
    tape = good()
    tape.fault("kill", 43, 43, 6.0, victims=[B])
    tape.ask(42, "bob", timer(key, due_s))
    tape.holder(53.0, B + 2, 1)
    tape.fire(due_s + 2.5, A + 2, key)

    assert red(judge(tape.end())) == {"L1"}


def test_an_occurrence_that_fires_twice_under_its_key_breaks_s3_alone() -> None:
    tape = good()
    schedule(tape, 45, timer(800, rule="R1/PT1S", name="double"), 46.002)
    tape.claim(45.5, A, 800)
    again = tape.record(46.5, 800, "TRIGGERED", A)
    tape.fire(46.004, A, 800)
    tape.commit(46.5, again)

    assert red(judge(tape.end())) == {"S3"}


def test_a_lost_shards_timer_may_not_be_later_than_was_promised() -> None:
    tape = good()
    tape.fault("kill", 43, 43, 3.0, victims=[B])
    tape.ask(42, "bob", timer(701, 48))
    tape.fire(52.5, A + 2, 701)

    assert red(judge(tape.end())) == {"L1", "T1"}
