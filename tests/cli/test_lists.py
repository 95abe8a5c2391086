"""A list reports whether it is empty, and whether more rows exist."""

from __future__ import annotations

import asyncio

import pytest

from shardclock_server.cli.lists import full_note
from tests.support.cli_asserts import BAD_INPUT, DONE
from tests.support.factories import query
from tests.support.job_runs import declare
from tests.support.jobs import job_spec
from tests.support.program import Shell

FILTERED = [
    ("dead-letters --target typo", "dead letters"),
    ("deliveries --target typo", "deliveries"),
    ("endpoints --tenant typo", "endpoints"),
    ("keys --tenant typo", "keys"),
    ("processes incidents --process typo", "incidents"),
    ("processes instances --state incident", "instances"),
    ("processes list --tenant typo", "processes"),
    ("tasks list --group typo", "tasks"),
    ("tasks list --user typo", "tasks"),
    ("tasks list --unassigned", "tasks"),
    ("tasks list --after 7", "tasks"),
]
WHOLE = [
    ("dead-letters", "there are no dead letters"),
    ("deliveries", "there are no deliveries"),
    ("endpoints", "there are no endpoints; `shardclock endpoints add"),
    ("keys", "there are no keys; add a key with"),
    ("processes incidents", "there are no incidents"),
    ("processes instances", "no instance exists; "),
    ("processes list", "no process is deployed; "),
    ("tasks list", "no task is open"),
]

# Two rows of each listed kind.
TWO = """
insert into shardclock.definitions (
    definition_key, tenant_id, process_id, version, name, resource, digest, model, starts
)
select 1, 'default', 'p', 1, 'p', 'p.bpmn', sha256(''), '', '[]';
insert into shardclock.instances (instance_key, definition_key, version, tenant_id, process_id, state)
select i, 1, 1, 'default', 'p', '{}' from generate_series(1, 2) i;
insert into shardclock.incidents (instance_key, token, node_id, sentence)
select i, 2, 'u', 'no' from generate_series(1, 2) i;
insert into shardclock.tasks (task_key, instance_key, token, tenant_id, process_id, node_id, name)
select 10 + i, i, 2, 'default', 'p', 'u', 'u' from generate_series(1, 2) i;
insert into shardclock.dead_letters (
    timer_key, due_date, created_at, fired_at, occurrence, claims, failed_attempts, slot, tenant_id, timer_type, target,
    reason
)
select i, now(), now(), now(), 1, 1, 1, 1, 'default', 'USER', 'h', 'no' from generate_series(1, 2) i;
insert into shardclock.job_runs (timer_key, claims, job, outcome, attempt, scheduled_at, started_at, ended_at)
select i, 1, 'report', 'SUCCEEDED', 1, now(), now(), now() from generate_series(1, 2) i;
insert into shardclock.consumers (group_name, partitions) select 'billing', 1;
insert into shardclock.records_aside (group_name, position, attempts, error, record)
select 'billing', i, 3, 'no', '{"timer_key": 1, "intent": "TRIGGERED"}' from generate_series(1, 2) i
"""
HIGHER = "a higher --limit"
CUT = [
    ("audit", HIGHER),
    ("consumers aside billing", HIGHER),
    ("dead-letters", HIGHER),
    ("endpoints", HIGHER),
    ("jobs history report", HIGHER),
    ("keys", HIGHER),
    ("processes incidents", HIGHER),
    ("processes instances", "--after 2"),
    ("targets", HIGHER),
    ("tasks list", "--after 11"),
    ("tenants list", HIGHER),
]


@pytest.fixture
def full(shell: Shell) -> Shell:
    """Insert at least two rows of each listed kind."""

    async def make() -> None:
        await declare(shell.dsn, job_spec("report"))
        for statement in TWO.split(";"):
            await query(shell.dsn, statement)

    asyncio.run(make())
    for name in ("one", "two"):
        assert shell("keys", "add", name, "--scope", "read").code == DONE
        assert shell("endpoints", "add", name, "--url", "https://example.com/").code == DONE
        assert shell("tenants", "set", name, "--timers", 5).code == DONE
    return shell


def test_an_empty_list_reports_that_no_rows_exist_only_without_filters(shell: Shell) -> None:
    for words, many in FILTERED:
        listed = shell(*words.split())
        assert (listed.code, listed.out, listed.err) == (DONE, "", f"there are no such {many}\n"), words
    for words, said in WHOLE:
        assert shell(*words.split()).err.startswith(said), words


def test_a_list_that_ends_at_its_limit_reports_that_more_rows_may_exist(full: Shell) -> None:
    for words, way_on in CUT:
        at_limit, whole = full(*words.split(), "--limit", 1), full(*words.split(), "--limit", 1_000)

        assert at_limit.err == f"there may be more rows: repeat the command with {way_on}\n", words
        assert (whole.code, whole.err) == (DONE, ""), words
        assert full(*words.split(), "--limit", 1, "--json").err == "", words


def test_a_short_page_of_waiting_instances_names_the_way_on(full: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shardclock_server.sql.processes.waits.INSTANCES_READ_MAX", 1)
    words = ("processes", "instances", "--definition-key", 1, "--node-id", "u")
    note = "there may be more rows: repeat the command with --after 1\n"

    listed = full(*words)
    assert (listed.code, "waits since" in listed.out, listed.err) == (DONE, True, note)
    assert full(*words, "--json").err == note, "a program can't infer the rest from a short page"
    refused = full("processes", "instances", "--node-id", "u")
    assert (refused.code, "needs the definition_key" in refused.err) == (BAD_INPUT, True)


def test_a_list_at_the_highest_limit_does_not_suggest_a_higher_limit() -> None:
    assert full_note([1, 2], 2, most=2) == "there may be more rows: at most 2 are listed"
