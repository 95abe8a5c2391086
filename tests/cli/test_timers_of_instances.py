"""Prove that commands leave alone what instances of processes wait for, and say so."""

from __future__ import annotations

import asyncio

from tests.support.cli_asserts import DONE, NOT_DONE, assert_refused, count
from tests.support.factories import add_timers
from tests.support.program import Shell

OF_INSTANCE = {"target": "'process:instance'", "process_instance_key": "1200"}


def add(shell: Shell, number: int, **columns: str) -> list[int]:
    """Add timers that are due one after the other, the first one in an hour."""
    due = "now() + i * interval '1 hour'"
    return asyncio.run(add_timers(shell.dsn, number, due, **columns))


def test_one_is_not_cancelled(shell: Shell) -> None:
    (key,) = add(shell, 1, **OF_INSTANCE)
    done = shell("cancel", key)
    assert_refused(done, f"timer {key} belongs to instance 1200", "shardclock processes cancel 1200", code=NOT_DONE)
    assert shell("pause", key).code == DONE
    assert shell("reschedule", key, "--in", "PT5M").code == DONE


def test_many_are_cancelled_without_those_and_they_are_counted(shell: Shell) -> None:
    add(shell, 2, **OF_INSTANCE)
    add(shell, 3)

    counted = shell("cancel", "--all")
    assert (counted.code, counted.out.split()[2:]) == (DONE, ["3", "0"])
    assert "left out: 2, which belong to instances of processes" in counted.err
    done = shell("cancel", "--all", "--yes", "--json")
    assert done.json == {"matched": 3, "changed": 3, "unsure": 0, "left_out": 2}
    assert count(shell) == 2
    none = shell("cancel", "--all", "--yes")
    assert "no other timer matches" in none.err
    assert shell("pause", "--all", "--yes", "--json").json["changed"] == 2


def test_of_a_process_instance_only_others_timers_are_cancelled(shell: Shell) -> None:
    add(shell, 2, **OF_INSTANCE)
    add(shell, 1, process_instance_key="1200")

    done = shell("cancel", "--process-instance", 1200, "--yes", "--json")

    assert done.json == {"matched": 1, "changed": 1, "unsure": 0, "left_out": 2}
    assert count(shell) == 2
