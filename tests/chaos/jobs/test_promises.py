"""Prove that the judge of jobs finds each violation in hand-written histories, and reports no other violation."""

from __future__ import annotations

from dataclasses import replace

import pytest

from chaos.history.faults import Fault
from chaos.jobs.__main__ import tell_all
from chaos.jobs.promises import AGAIN_S, LAST_S, LATE_S, LEFT, REPLACED, judge
from chaos.jobs.record import Counted, JobsRecord, Line, RunRecord

JOB = "second"


def lines(run: str, *event: str, job: str = JOB, at: float = 100.0) -> list[Line]:
    return [Line(it, job, run, at, 7) for it in event]


def changes(run: str, outcome: str, *, begun: float, took_s: float = 1.0, job: str = JOB) -> list[RunRecord]:
    end = begun + took_s
    return [RunRecord(0, begun, job, run, None), RunRecord(0, end, job, run, outcome, next_start=end + 0.9)]


def kill(began_at: float, ended_at: float, name: str = "kill worker") -> Fault:
    return Fault(1, "kill", name, began_at, ended_at)


GOOD = JobsRecord(
    lines=[
        *lines("1.1", "begin", "beat", "end"),
        *lines("2.1", "begin", "beat"),
        *lines("3.1", "begin", "beat", "raise"),
        *lines("4.1", "begin", "end"),
    ],
    changes=[
        *changes("1.1", "SUCCEEDED", begun=10.0),
        *changes("2.1", "CRASHED", begun=12.0, took_s=20.0),
        *changes("3.1", "FAILED", begun=40.0),
        *changes("4.1", "SUCCEEDED", begun=42.0),
    ],
    counted=[Counted(JOB, runs=4, successes=2, failures=1, crashes=1, is_marked=False)],
    faults=[kill(13.0, 13.1)],
    takes_s={JOB: 2.0},
    counted_from_end={JOB},
    warm_at=5.0,
    watched_until=44.0,
)


def broken(record: JobsRecord) -> set[str]:
    return {finding.promise for finding in judge(record) if finding.broken}


def test_a_valid_record_has_cases_of_every_promise_and_no_violation() -> None:
    assert broken(GOOD) == set()
    assert all(finding.cases for finding in judge(GOOD))


def test_a_run_that_overlaps_the_next_one_breaks_j1() -> None:
    late = [*GOOD.lines[:6], *lines("2.1", "beat"), *GOOD.lines[6:]]

    assert broken(replace(GOOD, lines=late)) == {"J1"}


@pytest.mark.parametrize("again", [Line("begin", JOB, "1.1", 100.0, 7), Line("beat", JOB, "1.1", 100.0, 8)])
def test_a_run_that_is_made_twice_breaks_j1(again: Line) -> None:
    assert broken(replace(GOOD, lines=[GOOD.lines[0], again, *GOOD.lines[1:]])) == {"J1"}


def test_runs_of_two_jobs_may_overlap() -> None:
    both = replace(
        GOOD,
        lines=[*lines("1.1", "begin"), *lines("9.1", "begin", job="other"), *lines("1.1", "end"), *GOOD.lines[3:]],
        changes=[*GOOD.changes, *changes("9.1", "CRASHED", begun=43.0, job="other")],
        takes_s={JOB: 2.0, "other": 2.0},
    )

    assert broken(both) == set()


@pytest.mark.parametrize("missing", range(len(GOOD.changes)))
def test_a_start_or_an_end_that_is_not_recorded_breaks_j2(missing: int) -> None:
    told = [change for number, change in enumerate(GOOD.changes) if number != missing]

    assert "J2" in broken(replace(GOOD, changes=told))


def test_an_end_that_is_recorded_twice_breaks_j2() -> None:
    assert "J2" in broken(replace(GOOD, changes=[*GOOD.changes, GOOD.changes[-1]]))


def test_a_call_that_was_never_begun_breaks_j2() -> None:
    assert broken(replace(GOOD, lines=[*GOOD.lines, *lines("5.1", "begin", "end")])) == {"J2"}


@pytest.mark.parametrize(
    ("run", "outcome"), [("2.1", "SUCCEEDED"), ("2.1", "FAILED"), ("3.1", "SUCCEEDED"), ("1.1", "FAILED")]
)
def test_an_outcome_that_differs_from_the_functions_outcome_breaks_j3(run: str, outcome: str) -> None:
    told = [it._replace(outcome=outcome) if it.run == run and it.outcome else it for it in GOOD.changes]

    assert "J3" in broken(replace(GOOD, changes=told))


@pytest.mark.parametrize(
    ("outcome", "reason"), [("INTERRUPTED", "its process died"), ("CANCELED", "it takes too long")]
)
def test_a_crash_with_another_outcome_breaks_j3(outcome: str, reason: str) -> None:
    told = [it._replace(outcome=outcome, reason=reason) if it.outcome == "CRASHED" else it for it in GOOD.changes]

    assert "J3" in broken(replace(GOOD, changes=told))


@pytest.mark.parametrize(
    ("outcome", "reason"), [("INTERRUPTED", f"{LEFT}; killed"), ("CANCELED", f"{REPLACED}; killed")]
)
def test_a_run_may_be_interrupted_with_a_reason(outcome: str, reason: str) -> None:
    told = [it._replace(outcome=outcome, reason=reason) if it.outcome == "CRASHED" else it for it in GOOD.changes]

    assert broken(replace(GOOD, changes=told)) == {"J4"}


def test_a_run_with_a_lost_answer_may_count_as_a_crash() -> None:
    told = [it._replace(outcome="CRASHED") if it.run == "1.1" and it.outcome else it for it in GOOD.changes]

    assert broken(replace(GOOD, changes=told)) == {"J4"}, "and the statistics must say so"


@pytest.mark.parametrize("field", ["runs", "successes", "failures", "crashes"])
def test_a_count_that_differs_from_the_records_breaks_j4(field: str) -> None:
    (counted,) = GOOD.counted
    more = counted._replace(**{field: getattr(counted, field) + 1})

    assert broken(replace(GOOD, counted=[more])) == {"J4"}


def test_a_remaining_mark_breaks_j5() -> None:
    (counted,) = GOOD.counted

    assert broken(replace(GOOD, counted=[counted._replace(is_marked=True)])) == {"J5"}


def test_a_job_that_begins_nothing_at_the_end_breaks_j5() -> None:
    assert "J5" in broken(replace(GOOD, watched_until=42.0 + LAST_S))


def test_a_start_before_its_time_breaks_j7() -> None:
    early = [it._replace(at=11.8) if it.run == "2.1" and it.outcome is None else it for it in GOOD.changes]

    assert broken(replace(GOOD, changes=early)) == {"J7"}
    assert broken(replace(GOOD, changes=early, counted_from_end=())) == set(), "on a grid another start may wait"


@pytest.mark.parametrize(
    ("runs", "quiet_s", "is_broken"),
    [(200, 39.0, False), (200, 45.0, False), (200, 80.0, True), (50, 45.0, True)],
    ids=["in time", "one of two hundred", "twice as long", "one of fifty"],
)
def test_after_a_fault_one_pause_in_a_hundred_may_exceed_the_bound(runs: int, quiet_s: float, is_broken: bool) -> None:
    told = [it for n in range(runs) for it in changes(f"{n}.1", "SUCCEEDED", begun=100.0 + 2 * n)]
    last = told[-2].at
    record = replace(GOOD, changes=told, faults=[kill(last + 1.0, last + 1.1)], watched_until=last + quiet_s)

    assert ("J6" in broken(record)) is is_broken


def began_nothing(until: float, *faults: Fault) -> bool:
    found = next(it for it in judge(replace(GOOD, faults=faults, watched_until=until)) if it.promise == "J6")
    return any("00:00:42" in line for line in found.broken)


def test_a_pause_that_nothing_excuses_breaks_j6() -> None:
    assert broken(replace(GOOD, faults=[])) == {"J6"}
    assert not began_nothing(42.0 + 2.0 + LATE_S)
    assert began_nothing(42.0 + 2.0 + LATE_S + 0.1)


def test_a_fault_excuses_a_recovery_and_its_own_length_once() -> None:
    long, within = kill(43.0, 53.0, "kill GCS"), kill(44.0, 52.0)

    assert not began_nothing(42.0 + 2.0 + LATE_S + AGAIN_S + 9.9, long, within)
    assert began_nothing(42.0 + 2.0 + LATE_S + AGAIN_S + 10.1, long, within)


def test_an_earlier_fault_excuses_only_the_rest_of_its_recovery() -> None:
    before = kill(20.0, 22.0)

    assert not began_nothing(22.0 + AGAIN_S + 2.0 + LATE_S - 0.1, before)
    assert began_nothing(22.0 + AGAIN_S + 2.0 + LATE_S + 0.1, before)


@pytest.mark.parametrize(
    ("record", "kills_min", "code"),
    [
        (GOOD, 0, 0),
        (GOOD, 2, 2),
        (replace(GOOD, faults=[]), 0, 1),
        (replace(GOOD, lines=[], changes=[], counted=[]), 0, 2),
    ],
    ids=["valid", "too few kills", "invalid", "no case"],
)
def test_the_exit_code_shows_the_verdict(record: JobsRecord, kills_min: int, code: int) -> None:
    assert tell_all(record, judge(record), {"kill worker": "worker"}, kills_min=kills_min) == code
