"""The command line pauses timers until a given time or for a duration, and shows when the pause ends."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from shardclock.api.codes import invalid
from tests.support.cli_asserts import DONE, assert_code, assert_refused
from tests.support.factories import BOUND_S, add_timers
from tests.support.program import Shell

NOON = "2040-01-01T12:00:00Z"
HOUR = timedelta(hours=1)


@pytest.fixture
def report(shell: Shell) -> Shell:
    """Schedule a report for each day."""
    shell("schedule", "--every", "R/P1D", "--name", "report")
    return shell


def shown(shell: Shell) -> dict[str, Any]:
    """Read the report's timer."""
    timer: dict[str, Any] = shell("show", "--name", "report", "--json").json["timer"]
    return timer


def choice(shell: Shell) -> str | None:
    """Read the stored choice of the pause."""
    ((missed,),) = shell.sql("select resume_missed from shardclock.timers")
    return None if missed is None else str(missed)


def is_two_hours_ahead(moment: str) -> bool:
    """Return whether a moment is two hours from now."""
    ahead = datetime.fromisoformat(moment) - datetime.now(UTC)
    return timedelta(0) <= 2 * HOUR - ahead < timedelta(seconds=BOUND_S)


def test_a_pause_until_a_moment_is_shown_listed_and_explained(report: Shell) -> None:
    done = report("pause", "--name", "report", "--until", "2040-01-01T13:00[Europe/Berlin]", "--missed", "skip")

    assert done.code == DONE
    assert (shown(report)["state"], shown(report)["resume_at"]) == ("PAUSED", NOON)
    assert choice(report) == "skip"
    (listed,) = report("list", "--state", "paused", "--json").json["timers"]
    assert listed["resume_at"] == NOON
    assert "paused until" in report("list", "--state", "paused").out
    assert "until 2040-01-01 12:00:00.000Z" in report("explain", "--name", "report").out


def test_a_pause_lasts_for_a_length_of_time(report: Shell) -> None:
    for length in ("2h", "PT2H"):
        assert report("pause", "--name", "report", "--until", length).code == DONE
        assert is_two_hours_ahead(shown(report)["resume_at"])


def test_a_bulk_pause_has_one_end_that_the_operation_and_the_audit_show(shell: Shell) -> None:
    asyncio.run(add_timers(shell.dsn, 3, "now() + interval '1 day'"))

    done = shell("pause", "--all", "--until", "2h", "--missed", "fire_all", "--yes", "--json")

    assert done.json["changed"] == 3
    (paused,) = shell.sql("select distinct resume_at, resume_missed from shardclock.timers")
    assert paused["resume_missed"] == "fire_all"
    (operation,) = shell("operations", "--json").json["operations"]
    assert datetime.fromisoformat(operation["parameters"]["until"]) == paused["resume_at"]
    (act,) = shell("audit", "--json").json["acts"]
    assert (act["parameters"]["until"], act["parameters"]["missed"]) == ("2h", "fire_all")
    # The end of an existing pause does not change, unless the filter selects paused timers.
    assert shell("pause", "--all", "--until", NOON, "--json").json["matched"] == 0
    assert shell("pause", "--all", "--state", "paused", "--until", NOON, "--yes", "--json").json["changed"] == 3


def test_an_end_in_the_past_is_refused_and_nothing_is_paused(report: Shell) -> None:
    for which in (["--name", "report"], ["--all", "--yes"]):
        for until in ("2020-01-01T00:00Z", "0s"):
            refused = report("pause", *which, "--until", until)
            assert_refused(refused, "--until '", "is not after now: name a later moment")
        assert_refused(report("pause", *which, "--missed", "skip"), "--missed 'skip' goes with --until")
        assert_code(report("pause", *which, "--until", "2020-01-01T00:00Z", "--json"), invalid("until"))
    assert shown(report)["state"] == "PENDING"
