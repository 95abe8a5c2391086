"""Clients' commands don't change the timers of jobs and processes; an operator's command does."""

from __future__ import annotations

import asyncio

from tests.support.cli_asserts import BAD_INPUT, DONE, NOT_DONE, assert_refused, count
from tests.support.factories import add_timers
from tests.support.program import Shell

OF_INSTANCE = {"target": "'process:instance'", "process_instance_key": "1200"}


def add(shell: Shell, number: int, **columns: str) -> list[int]:
    """Add timers that are due one hour apart, the first one in an hour."""
    due = "now() + i * interval '1 hour'"
    return asyncio.run(add_timers(shell.dsn, number, due, **columns))


def test_an_operator_changes_a_timer_of_an_instance_and_the_audit_records_it(shell: Shell) -> None:
    (key,) = add(shell, 1, **OF_INSTANCE)

    assert shell("operate", "pause", key, "--reason", "month-end").code == DONE
    assert shell("operate", "reschedule", key, "--shift", "1h", "--json").json["state"] == "RESCHEDULED"
    assert shell("operate", "resume", key).code == DONE

    acts = shell("audit", "--json").json["acts"]
    assert [(act["verb"], act["parameters"]["verb"], act["outcome"]) for act in reversed(acts)] == [
        ("operate", "pause", "done"), ("operate", "reschedule", "done"), ("operate", "resume", "done"),
    ]  # fmt: skip
    assert_refused(shell("operate", "pause", key, "--in", "5m"), "--in", "goes with reschedule", code=BAD_INPUT)
    assert_refused(
        shell("operate", "pause", key, "--missed", "skip"), "--missed 'skip' goes with --until", code=BAD_INPUT
    )
    assert_refused(shell("operate", "cancel", key), "verb 'cancel' is unknown", code=BAD_INPUT)


def test_a_bulk_change_counts_the_timers_of_instances_and_does_not_change_them(shell: Shell) -> None:
    add(shell, 2, **OF_INSTANCE)
    add(shell, 3)

    counted = shell("cancel", "--all")
    assert (counted.code, counted.out.split()[2:]) == (NOT_DONE, ["3", "0"])
    assert "left out: 2 timers of jobs and process instances" in counted.err
    paused = shell("pause", "--all", "--yes", "--json")
    assert (paused.json["matched"], paused.json["changed"], paused.json["left_out"]) == (3, 3, 2)
    done = shell("cancel", "--all", "--yes", "--json")
    assert (done.json["matched"], done.json["changed"], done.json["left_out"]) == (3, 3, 2)
    assert count(shell) == 2
    none = shell("cancel", "--all", "--yes")
    assert "no other timer matches" in none.err
