"""Each verb changes one timer, and reports truthfully if the timer has already ended."""

from __future__ import annotations

import asyncio
from typing import Any
from unittest import mock

import pytest

from shardclock.api.refusals.timers import TIMER_ENDED, TIMER_PAUSED, UNKNOWN_TIMER
from shardclock.backoff import Backoff
from shardclock_server.cli import verbs
from shardclock_server.sql.retry import StoreRetry
from shardclock_server.sql.session import Session, StoreUnavailable
from tests.support.cli_asserts import (
    BAD_INPUT,
    DONE,
    DOWN,
    NOT_DONE,
    NOT_THERE,
    assert_code,
    assert_refused,
    count,
    end_all,
)
from tests.support.factories import add_schedule
from tests.support.program import Shell

VERBS: list[list[Any]] = [
    ["cancel"], ["pause"], ["resume"], ["run-now"], ["reschedule", "--in", "PT1H"], ["reschedule", "--shift", "-PT1H"],
    ["reschedule", "--every", "R/PT1H"],
]  # fmt: skip


AT_ONCE = StoreRetry(attempts=5, backoff=Backoff(0.0, 0.0))


def schedule(shell: Shell, *options: object) -> int:
    """Schedule a timer, and return its key."""
    return int(shell("schedule", *options, "--json").json["timer_key"])


def shown(shell: Shell, *which: object) -> dict[str, Any]:
    """Read a stored timer."""
    timer: dict[str, Any] = shell("show", *which, "--json").json["timer"]
    return timer


# every verb


def test_a_verb_on_an_ended_or_unknown_timer_reports_that(shell: Shell) -> None:
    key = schedule(shell, "--at", "2020-01-01T00:00:00Z")
    end_all(shell, "SKIPPED")
    for verb in VERBS:
        assert_refused(shell(*verb, key), "too late", str(key), "SKIPPED already", code=NOT_DONE)
        assert_code(shell(*verb, key, "--json"), TIMER_ENDED, state="SKIPPED")
        assert_code(shell(*verb, 42, "--json"), UNKNOWN_TIMER, state="UNKNOWN")
        which = ("--name", "x", "--tenant", "acme")
        assert_refused(shell(*verb, *which), "no timer 'x' of tenant 'acme'", code=NOT_DONE)


def test_a_verb_needs_exactly_one_timer(capsys: pytest.CaptureFixture[str]) -> None:
    shell = Shell(DOWN, capsys)
    for verb in VERBS:
        assert_refused(shell(*verb), "either its key or --name")
        assert_refused(shell(*verb, 1, "--name", "x"), "either its key or --name")


# cancel


def test_a_timer_is_cancelled_by_key_and_by_name(shell: Shell) -> None:
    key = schedule(shell, "--in", "PT1H")
    schedule(shell, "--in", "PT1H", "--name", "b", "--tenant", "acme")

    assert shell("cancel", key, "--json").json == {"state": "CANCELED"}
    assert "CANCELED" in shell("cancel", "--name", "b", "--tenant", "acme").out
    assert count(shell) == 0


# pause, resume


# run-now


def test_run_now_makes_a_timer_due_once(shell: Shell) -> None:
    key = schedule(shell, "--at", "2031-01-31T08:00:00Z")

    first, second = shell("run-now", key), shell("run-now", key)

    assert (first.code, second.code, first.err, second.err) == (DONE, DONE, "", "")
    assert "due now" in first.out
    assert "due already" in second.out
    assert shell("status", "--json").json["overdue"] == 1
    assert shell("run-now", key, "--json").json == {"state": "PENDING"}


def test_run_now_retries_a_lost_answer_under_one_operation(shell: Shell) -> None:
    schedule(shell, "--every", "R/PT1H", "--name", "beat")
    rows, operations = Session.call, []

    async def lost_once(self: Session, statement: str, /, **values: Any) -> Any:
        answer = await rows(self, statement, **values)
        if statement == "run_timer":
            operations.append(values["operation"])
            if len(operations) == 1:
                raise StoreUnavailable("lost")
        return answer

    with mock.patch.object(Session, "call", lost_once), mock.patch.object(verbs, "PAGE_RETRY", AT_ONCE):
        done = shell("run-now", "--name", "beat", "--json")

    assert (done.code, done.json) == (DONE, {"state": "RESCHEDULED"})
    assert len(operations) == 2
    assert len(set(operations)) == 1
    assert shell("run-now", "--name", "beat", "--operation", operations[0], "--json").json == {"state": "RESCHEDULED"}
    assert len(shell("show", "--name", "beat", "--json").json["records"]) == 1


def test_run_now_without_an_answer_names_its_operation(shell: Shell) -> None:
    gone = mock.patch("shardclock_server.cli.verbs.run_timer", side_effect=StoreUnavailable("gone"))

    with gone, mock.patch.object(verbs, "PAGE_RETRY", AT_ONCE):
        assert_refused(shell("run-now", 1, "--operation", "deploy"), "gone", "--operation deploy", code=NOT_THERE)


def test_run_now_refuses_a_paused_timer_with_the_way_out(shell: Shell) -> None:
    key = schedule(shell, "--in", "PT1H")
    shell("pause", key)

    assert_refused(shell("run-now", key), str(key), "paused", "resume it first", code=NOT_DONE)
    assert_code(shell("run-now", key, "--json"), TIMER_PAUSED, state="PAUSED")
    assert shown(shell, key)["state"] == "PAUSED"


# reschedule


def test_reschedule_moves_a_timer(shell: Shell) -> None:
    for to, due_date in (
        (["--at", "2031-01-31T08:00", "--zone", "Europe/Berlin"], "2031-01-31T07:00:00Z"),
        (["--at", "2030-01-31T00:00:00Z"], "2030-01-31T00:00:00Z"),
        (["--shift", "P1M"], "2030-02-28T00:00:00Z"),
        (["--shift", "-90m"], "2030-02-27T22:30:00Z"),
    ):
        shell("schedule", "--at", "2030-01-30T00:00:00Z", "--name", "n", "--on-conflict", "ignore")
        done = shell("reschedule", "--name", "n", *to, "--json")
        assert done.json == {"state": "RESCHEDULED", "due_date": due_date}
        assert shown(shell, "--name", "n")["due_date"] == due_date
    assert "2031-01-31 08:00:00.000Z" in shell("reschedule", "--name", "n", "--at", "2031-01-31T08:00:00Z").out


def test_reschedule_prints_the_date_of_a_new_rule_that_no_shard_has_planned_yet(shell: Shell) -> None:
    key = schedule(shell, "--at", "2030-01-31T00:00:00Z", "--zone", "Europe/Berlin")

    done = shell("reschedule", key, "--every", "R/2099-01-31T08:00[Europe/Berlin]/P1D", "--json")

    assert done.json["due_date"] == "2099-01-31T07:00:00Z"


def test_a_new_rule_keeps_the_zone_and_the_policy_that_are_not_given(shell: Shell) -> None:
    schedule(shell, "--every", "R/P1D", "--zone", "Europe/Berlin", "--missed", "skip", "--name", "beat")
    for rule, expected in (
        (["--every", "R/PT2H"], ("R/PT2H", "Europe/Berlin", "skip")),
        (["--cron", "@daily", "--missed", "fire_all"], ("@daily", "Europe/Berlin", "fire_all")),
        (["--every", "0 8 * * mon", "--zone", "Asia/Tokyo"], ("0 8 * * mon", "Asia/Tokyo", "fire_all")),
    ):
        assert shell("reschedule", "--name", "beat", *rule, "--json").json["state"] == "RESCHEDULED"
        timer = shown(shell, "--name", "beat")
        assert (timer["schedule"], timer["zone"], timer["missed"]) == expected


def test_an_invalid_reschedule_is_refused_and_moves_no_timer(shell: Shell) -> None:
    key = schedule(shell, "--at", "2030-01-31T08:00:00Z")
    cases: list[tuple[list[str], list[str]]] = [
        ([], ["exactly one of --in, --at, --shift and --every"]),
        (["--in", "PT1S", "--at", "2030-01-31T08:00:00Z"], ["exactly one of"]),
        (["--every", "R/PT1H", "--cron", "@daily"], ["--every and --cron"]),
        (["--in", "soon"], ["--in 'soon'", "not a length of time"]),
        (["--at", "2030-01-31T08:00"], ["--at", "no offset"]),
        (["--shift", "-15M"], ["--shift '-15M'", "minutes or months"]),
        (["--shift", "P9000Y"], ["9000Y", "years 1 to 9999"]),
        (["--cron", "0 0 30 2 *"], ["--cron '0 0 30 2 *'", "never occurs"]),
        (["--in", "PT1H", "--missed", "skip"], ["--missed goes with"]),
        (["--shift", "PT1H", "--zone", "UTC"], ["--zone goes with"]),
        (["--shift", "PT1H", "--operation", "x"], ["--operation goes with --all"]),
    ]
    for options, words in cases:
        assert_refused(shell("reschedule", key, *options), *words)
    timer = shown(shell, key)
    assert (timer["due_date"], timer["schedule"]) == ("2030-01-31T08:00:00Z", None)


def test_a_lost_answer_to_a_shift_is_reported_with_the_way_out(shell: Shell) -> None:
    key = schedule(shell, "--at", "2030-01-31T08:00:00Z")
    rows = Session.call

    async def lost(self: Session, name: str, /, **values: Any) -> Any:
        answer = await rows(self, name, **values)
        if name == "reschedule_timer":
            raise StoreUnavailable("connection lost")
        return answer

    with mock.patch.object(Session, "call", lost):
        done = shell("reschedule", key, "--shift", "PT1H")

    assert_refused(done, "connection lost", "check the timer before you repeat the request", code=NOT_THERE)


def test_a_resume_chooses_the_rule_for_the_missed_occurrences(shell: Shell) -> None:
    key = asyncio.run(add_schedule(shell.dsn))
    shell("pause", key)

    assert_refused(shell("resume", key, "--missed", "never"), "--missed 'never' is unknown", "fire_all", code=BAD_INPUT)
    assert shell("resume", key, "--missed", "fire_all", "--json").json == {"state": "PENDING"}

    assert shell("show", key, "--json").json["records"][0]["detail"]["missed"] == "fire_all"


@pytest.mark.parametrize("verb", ["show", "explain", "cancel", "pause", "resume", "run-now"])
def test_an_empty_name_is_refused(shell: Shell, verb: str) -> None:
    assert_refused(shell(verb, "--name", ""), "--name '' is refused: it must be 1 to 200 characters")
