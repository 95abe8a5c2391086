"""Prove that the checker finds a violation of each promise."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from chaos.checker import judge
from chaos.history import History
from chaos.history.changes import Recorded
from chaos.promises import PROMISES
from chaos.scripted.answer_violations import VIOLATIONS as ANSWER_VIOLATIONS
from chaos.scripted.delivery_violations import VIOLATIONS as DELIVERY_VIOLATIONS
from chaos.scripted.good_run import A, B, Violation, good, red, schedule, timer
from chaos.scripted.lateness_violations import VIOLATIONS as LATENESS_VIOLATIONS
from chaos.scripted.lateness_violations import a_timer_is_late
from chaos.scripted.process_violations import VIOLATIONS as PROCESS_VIOLATIONS
from chaos.scripted.schedule_violations import VIOLATIONS as SCHEDULE_VIOLATIONS
from chaos.scripted.schedule_violations import occurrences_come_in_another_order
from chaos.scripted.timer_violations import VIOLATIONS as TIMER_VIOLATIONS

VIOLATIONS = [*TIMER_VIOLATIONS, *SCHEDULE_VIOLATIONS, *LATENESS_VIOLATIONS]


def test_a_run_without_violations_is_valid() -> None:
    verdict = judge(good().end())

    assert verdict.reasons == []
    assert verdict.status == "valid"
    assert [finding.promise for finding in verdict.findings] == [promise.promise for promise in PROMISES]
    assert all(finding.cases for finding in verdict.findings)
    cases = {finding.promise: finding.cases for finding in verdict.findings}
    assert (cases["S3"], cases["L4"], cases["T1"]) == (23, 2 * 36, 2)


@pytest.mark.parametrize(
    ("broken", "violation", "told"), VIOLATIONS, ids=[f"{it[0]} {it[1].__name__}" for it in VIOLATIONS]
)
def test_a_violation_breaks_only_its_promise_and_names_the_row(broken: str, violation: Violation, told: str) -> None:
    run = good()
    violation(run)

    verdict = judge(run.end())

    assert verdict.status == "invalid"
    assert red(verdict) == set(broken.split()), [finding.shown for finding in verdict.findings if finding.violations]
    for finding in verdict.findings:
        if finding.violations:
            assert finding.violations == 1 or violation is occurrences_come_in_another_order
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
def test_a_reader_with_repeated_missing_or_unordered_records_breaks_l4(
    spoil: Callable[[History], object], told: str
) -> None:
    history = good().end()
    spoil(history)

    verdict = judge(history)

    assert red(verdict) == {"L4"}
    assert told in next(finding.shown[0] for finding in verdict.findings if finding.violations)


def test_records_of_a_timer_that_are_not_in_the_order_of_its_commits_break_l4() -> None:
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
    assert told == f"timer {moved.timer_key}: the record TRIGGERED is before RESCHEDULED, but was committed later"


def test_an_occurrence_that_fires_under_two_keys_breaks_s3() -> None:
    run = good()
    schedule(run, 45, timer(800, rule="R2/PT1S", name="double"), 46.002)
    run.fire_in_time(A, 800, run.next_of(800, 802, 47.002), run.next_of(800, 804, 47.002))
    run.fire_in_time(A, 802)
    run.fire_in_time(A, 804)

    finding = next(it for it in judge(run.end()).findings if it.promise == "S3")

    assert finding.violations == 1
    assert "timer 804 of ada/double #2" in finding.shown[0]


@pytest.mark.parametrize(("fired_s", "broken"), [(52.5, set[str]()), (58.0, {"S1"})])
def test_a_record_written_when_the_clock_is_set_back_is_not_early(fired_s: float, broken: set[str]) -> None:
    run = good()
    run.schedule(45, "bob", timer(701, 70))
    run.fault("clock", 50, 52, 5.0, detail={"offset_s": 3600.0})
    run.claim(49, B, 701)
    run.fire(fired_s, B, 701)

    assert red(judge(run.end())) & {"S1"} == broken


def test_each_promise_with_a_check_has_a_violation() -> None:
    seeded = {
        promise
        for broken, _, _ in (*VIOLATIONS, *DELIVERY_VIOLATIONS, *PROCESS_VIOLATIONS, *ANSWER_VIOLATIONS)
        for promise in broken.split()
    } | {"L4"}

    assert seeded == {promise.promise for promise in PROMISES if promise.check}


def test_a_fault_that_disturbs_no_timer_excuses_no_lateness() -> None:
    run = good()
    run.fault("lock", 49, 52, 5.0, disturbs=False)
    a_timer_is_late(run)

    assert red(judge(run.end())) == {"L1"}


@pytest.mark.parametrize(("key", "due_s"), [(704, 51.0), (701, 54.0)], ids=["another's slot", "kept again"])
def test_only_timers_of_orphaned_slots_may_be_as_late_as_a_takeover(key: int, due_s: float) -> None:
    run = good()
    run.fault("kill", 43, 43, 6.0, victims=[B])
    run.schedule(42, "bob", timer(key, due_s))
    run.holder(53.0, B + 2, 1)
    run.fire(due_s + 2.5, A + 2, key)

    assert red(judge(run.end())) == {"L1"}


def test_an_occurrence_that_fires_twice_under_its_key_breaks_only_s3() -> None:
    run = good()
    schedule(run, 45, timer(800, rule="R1/PT1S", name="double"), 46.002)
    run.claim(45.5, A, 800)
    again = run.record(46.5, 800, "TRIGGERED", A)
    run.fire(46.004, A, 800)
    run.commit(46.5, again)

    assert red(judge(run.end())) == {"S3"}


def test_a_lost_shards_timer_that_is_later_than_promised_breaks_l1_and_t1() -> None:
    run = good()
    run.fault("kill", 43, 43, 3.0, victims=[B])
    run.schedule(42, "bob", timer(701, 48))
    run.fire(52.5, A + 2, 701)

    assert red(judge(run.end())) == {"L1", "T1"}
