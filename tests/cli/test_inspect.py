"""Timers are listed page by page, a single timer is shown with its records, and a preview needs no database."""

from __future__ import annotations

import asyncio
import shlex

import pytest

from tests.support.cli_asserts import DONE, DOWN, NOT_DONE, assert_refused, end_all
from tests.support.factories import add_timers
from tests.support.program import Shell


@pytest.fixture
def alone(capsys: pytest.CaptureFixture[str]) -> Shell:
    """Run commands in this process, without a database."""
    return Shell(DOWN, capsys)


def names(shell: Shell, *options: object) -> list[str]:
    """Return the names of the timers that `list` prints."""
    return [timer["name"] for timer in shell("list", *options, "--json").json["timers"]]


# list


def test_timers_are_listed_by_their_state_soonest_first(shell: Shell) -> None:
    shell("schedule", "--at", "2020-01-01T00:00:00Z", "--name", "fired")
    end_all(shell)
    for name in ("late", "rests", "gone"):
        shell("schedule", "--in", "PT2H", "--name", name)
    shell("schedule", "--in", "PT1H", "--name", "soon")
    shell("pause", "--name", "rests")
    shell("cancel", "--name", "gone")
    assert names(shell) == names(shell, "--state", "pending") == ["soon", "late"]
    assert names(shell, "-n", 1) == ["soon"]
    assert names(shell, "--state", "PAUSED") == ["rests"]
    assert names(shell, "--state", "ended") == ["gone", "fired"]


def test_a_list_names_the_option_for_the_next_page(shell: Shell) -> None:
    asyncio.run(add_timers(shell.dsn, 3, "date '2031-01-01' + i", name="'t-' || i"))

    done = shell("list", "-n", 2)

    assert (done.code, len(done.err.splitlines())) == (DONE, 1)
    option, token = shlex.split(done.err.partition("the command with ")[2])
    more = shell("list", "-n", 2, option, token)
    assert "t-3" in more.out
    assert "t-2" not in more.out
    assert more.err == ""


def test_a_list_is_filtered_by_name_due_date_and_process_instance(shell: Shell) -> None:
    names_of = "case when i < 3 then 'a-' else 'b-' end || i"
    asyncio.run(add_timers(shell.dsn, 4, "date '2031-01-01' + i", name=names_of, process_instance_key="i % 2 + 1"))
    shell("schedule", "--at", "2031-01-02T00:00:00Z", "--name", "a-other", "--tenant", "acme")

    assert names(shell, "--name-prefix", "a-") == ["a-1", "a-2"], "a prefix is of the default tenant's names"
    assert names(shell, "--name-prefix", "a-", "--tenant", "acme") == ["a-other"]
    assert names(shell, "--due-from", "2031-01-04T00:00:00Z") == ["b-3", "b-4"]
    assert names(shell, "--due-before", "2031-01-03T00:00:00Z", "--tenant", "default") == ["a-1"]
    assert names(shell, "--process-instance", 1) == ["a-2", "b-4"]
    assert names(shell, "--name-contains", "B-") == ["b-3", "b-4"]
    assert names(shell, "--only-schedules") == names(shell, "--target", "nowhere") == []
    shell("pause", "--name", "b-3")
    assert names(shell, "--state", "paused", "--changed-before", "2100-01-01T00:00:00Z") == ["b-3"]
    assert names(shell, "--state", "paused", "--order-by", "change") == ["b-3"]
    assert names(shell, "--state", "paused", "--changed-from", "2100-01-01T00:00:00Z") == []
    shell("resume", "--name", "b-3")
    assert names(shell, "--process-instance", 1, "--due-from", "2031-01-04T00:00:00Z") == ["b-4"]


def test_a_list_shows_and_reads_dates_in_a_zone(shell: Shell) -> None:
    shell("schedule", "--at", "2031-06-30T22:30:00Z", "--name", "x")

    done = shell("list", "--zone", "Europe/Berlin", "--due-from", "2031-07-01T00:30")

    assert "2031-07-01 00:30:00.000+02:00" in done.out
    assert names(shell, "--zone", "Europe/Berlin", "--due-from", "2031-07-01T00:31") == []


def test_a_timer_at_the_end_of_the_calendar_is_listed_in_any_zone(shell: Shell) -> None:
    shell("schedule", "--at", "9999-12-31T23:00:00Z", "--name", "last")

    assert "9999-12-31 23:00:00.000Z" in shell("list", "--zone", "Asia/Tokyo").out


def test_an_invalid_search_is_refused(shell: Shell) -> None:
    cases: list[tuple[list[str], list[str]]] = [
        (["--state", "lost"], ["--state 'lost'", "pending, paused, triggered, canceled, skipped or ended"]),
        (["-n", "10001"], ["10001"]),
        (["--page", "2"], ["--page '2'", "PENDING"]),
        (["--due-from", "tomorrow"], ["--due-from 'tomorrow'", "not an ISO 8601 date-time"]),
        (["--due-from", "2031-01-02T00:00:00Z", "--due-before", "2031-01-02T00:00:00Z"], ["nothing is due between"]),
        (["--order-by", "name"], ["--order-by 'name' is refused"]),
        (["--zone", "Mars/Olympus"], ["'Mars/Olympus'", "IANA"]),
    ]
    for options, words in cases:
        assert_refused(shell("list", *options), *words)


# show


def test_a_timer_is_shown_with_its_records(shell: Shell) -> None:
    key = shell("schedule", "--in", "PT1H", "--name", "invoice", "--payload", "[1]", "--json").json["timer_key"]
    shell("reschedule", key, "--in", "PT2H")
    shell("cancel", key, "--reason", "paid")

    shown = shell("show", key, "--json").json

    assert (shown["timer"]["state"], shown["timer"]["payload"]) == ("CANCELED", [1])
    assert [record["intent"] for record in shown["records"]] == ["CANCELED", "RESCHEDULED"]
    people = shell("show", "--name", "invoice")
    assert (people.code, people.err) == (DONE, "")
    for word in ("CANCELED", "RESCHEDULED", "paid", "invoice"):
        assert word in people.out


def test_an_unknown_timer_is_reported(shell: Shell) -> None:
    assert_refused(shell("show", 42), "no timer 42", code=NOT_DONE)
    assert_refused(shell("show", "--name", "x"), "'x' of tenant 'default'", code=NOT_DONE)


# preview


def test_a_preview_shows_the_changes_of_the_clock(alone: Shell) -> None:
    rule = ["preview", "30 2 * * *", "--zone", "Europe/Berlin", "-n", 2, "--from", "2026-03-28T00:00"]

    done = alone(*rule, "--json")

    assert (done.code, done.err) == (DONE, "")
    assert [(it["number"], it["local"], it["due_date"]) for it in done.json] == [
        (1, "2026-03-28T02:30:00+01:00", "2026-03-28T01:30:00Z"),
        (2, "2026-03-30T02:30:00+02:00", "2026-03-30T00:30:00Z"),
    ]
    assert done.json[0]["note"] is None
    assert "left out 2026-03-29 02:30:00" in done.json[1]["note"]
    people = alone(*rule).out
    for word in ("2026-03-30 02:30:00+02:00", "2026-03-30 00:30:00Z", "clock +01:00", "left out"):
        assert word in people


def test_a_preview_shows_the_next_ten_dates(alone: Shell) -> None:
    dates = [it["due_date"] for it in alone("preview", "R/PT1H", "--json").json]

    assert len(dates) == 10
    assert dates == sorted(dates)
    assert dates[0] > "2026"
    assert len(alone("preview", "R3/PT1H", "--json").json) == 3, "a rule may end before"


def test_a_preview_of_a_rule_that_is_invalid_or_never_occurs_is_refused(alone: Shell) -> None:
    cases: list[tuple[list[str], list[str]]] = [
        (["0 0 30 2 *"], ["RULE '0 0 30 2 *' never occurs"]),
        (["R/1H"], ["'R/1H'", "not an ISO 8601 duration"]),
        (["0 8 * * *", "--from", "2026-06-03T08:00"], ["--from", "no offset"]),
        ([], ["RULE"]),
    ]
    for arguments, words in cases:
        assert_refused(alone("preview", *arguments), *words)
