"""The command line lists, shows and cancels bulk operations, and records their counts in the audit."""

from __future__ import annotations

import asyncio

from tests.support.cli_asserts import BAD_INPUT, DONE, NOT_DONE, assert_refused, count, recorded_outcomes
from tests.support.deliveries import HANDLER, bury, declare
from tests.support.factories import add_timers
from tests.support.program import Shell

RUNNING = """
    insert into shardclock.operations (
        request_id, due_at, matched, changed, unchanged_reasons, by_operator, verb, filter, change, interface
    )
    values (
        gen_random_uuid(), now() + interval '30 min', 9, 3, '{"timer_ended": 2}', true, 'pause', '{"target": "x"}',
        '{"reason": "closed"}', 'cli'
    )
"""


def add(shell: Shell, number: int) -> None:
    asyncio.run(add_timers(shell.dsn, number, "now() + interval '30 min'"))


def acts(shell: Shell) -> list[tuple[object, ...]]:
    """Read from the audit each operation's verb and counts, the oldest first."""
    listed = reversed(shell("audit", "--json").json["acts"])
    return [(it["verb"], it["parameters"].get("changed"), it["parameters"].get("operation_id")) for it in listed]


def test_each_bulk_command_is_an_operation_and_its_audit_record_has_the_count(shell: Shell) -> None:
    add(shell, 3)
    asyncio.run(declare(shell.dsn, HANDLER))
    asyncio.run(bury(shell.dsn, 5))

    shell("pause", "--all", "--reason", "closed", "--yes")
    shell("resume", "--all")
    shell("dead-letters", "redrive", "--all", "--limit", 2, "--yes")
    shell.sql("update shardclock.deliveries set next_attempt_at = now() + interval '1 h'")
    shell("deliveries", "retry", "--all", "--yes")
    shell("deliveries", "retry", "--all", "--yes")
    shell("dead-letters", "discard", "--all", "--yes")
    shell("dead-letters", "discard", "--all", "--yes")

    assert recorded_outcomes(shell) == ["done"] * 6

    found = shell("operations", "--json").json["operations"]
    assert [(it["verb"], it["state"], it["matched"], it["changed"]) for it in reversed(found)] == [
        ("pause", "DONE", 3, 3),
        ("dead-letters redrive", "DONE", 2, 2),
        ("deliveries retry", "DONE", 2, 2),
        ("dead-letters discard", "DONE", 3, 3),
    ]
    pause = found[-1]
    assert (pause["interface"], pause["reason"], pause["tenant_id"]) == ("cli", "closed", "default")
    assert acts(shell) == [
        ("pause", 3, found[3]["operation_id"]),
        ("dead-letters redrive", 2, found[2]["operation_id"]),
        ("deliveries retry", 2, found[1]["operation_id"]),
        ("deliveries retry", 0, None),
        ("dead-letters discard", 3, found[0]["operation_id"]),
        ("dead-letters discard", 0, None),
    ]
    assert [
        it["verb"]
        for it in shell("operations", "list", "--verb", "dead-letters", "--limit", 1, "--json").json["operations"]
    ] == ["dead-letters discard"]
    assert len(shell("operations").out.splitlines()) == 5


def test_an_operation_is_shown_and_cancelled(shell: Shell) -> None:
    none = shell("operations")
    assert (none.code, "there are no bulk operations" in none.err) == (DONE, True)
    shell.sql(RUNNING)

    assert [it["operation_id"] for it in shell("operations", "--state", "running", "--json").json["operations"]] == [1]
    shown = shell("operations", "show", 1)
    assert (shown.code, "closed" in shown.out, "{'target': 'x'}" in shown.out) == (DONE, True, True)
    assert "2 had ended\n" in shown.out
    assert shell("operations", "show", 1, "--json").json["unchanged_reasons"] == {"timer_ended": 2}
    ended = shell("operations", "cancel", 1)
    assert (ended.code, "3 of 9 rows were changed" in ended.err) == (DONE, True)
    assert_refused(shell("operations", "cancel", 1), "operation 1 is CANCELED already", code=NOT_DONE)
    assert_refused(
        shell("operations", "show", 2),
        "there is no operation 2: list the operations (shardclock operations)",
        code=NOT_DONE,
    )
    assert_refused(shell("operations", "--state", "odd"), "'odd'", "INTERRUPTED", code=BAD_INPUT)
    assert [verb for verb, _, _ in acts(shell)] == ["operations cancel", "operations cancel"]


def test_a_bulk_change_can_be_limited_to_a_state(shell: Shell) -> None:
    add(shell, 3)
    shell.sql("select shardclock.pause_timer((select min(timer_key) from shardclock.timers))")

    assert shell("cancel", "--all", "--state", "paused", "--json").json["matched"] == 1
    assert shell("resume", "--all", "--state", "pending", "--json").json["matched"] == 0
    assert shell("reschedule", "--all", "--state", "PENDING", "--shift", "1h", "--json").json["matched"] == 2
    assert shell("cancel", "--all", "--state", "paused", "--yes", "--json").json["changed"] == 1
    assert count(shell) == 2
    assert_refused(shell("pause", "--all", "--state", "fired"), "'fired'", "pending or paused", code=BAD_INPUT)
    assert_refused(shell("pause", "--state", "paused"), "add --all", code=BAD_INPUT)
    (operation,) = shell("operations", "--json").json["operations"]
    assert operation["filter"] == {"state": "PAUSED"}
