"""Each operator's command leaves one record in the audit, and commands that only read leave none."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from typing import Any
from unittest import mock

import pytest
import typer

from shardclock_server.cli import recording
from shardclock_server.cli.app import app
from shardclock_server.cli.recording import VERBS
from shardclock_server.sql.session import StoreUnavailable
from tests.support.cli_asserts import DONE, NOT_THERE
from tests.support.factories import add_timers
from tests.support.program import Shell

# Commands that change nothing, and commands for clients: they schedule timers, or change one timer.
OTHERS = {
    "up", "gateway", "demo", "migrate", "exporter", "dsn", "psql", "forecast", "schedule", "preview", "list", "show",
    "explain", "run-now", "tail", "status", "targets", "audit", "consumers list", "consumers aside",
    "dead-letters list", "dead-letters groups",
    "deliveries list", "deliveries show", "endpoints list", "endpoints attempts", "keys list", "jobs list", "jobs show",
    "jobs check", "jobs history", "jobs logs", "tenants list", "tenants show", "processes list",
    "processes start", "processes instances", "processes incidents", "processes show", "processes model",
    "processes message", "processes signal", "tasks list", "tasks show", "tasks claim", "tasks unclaim",
    "tasks complete", "schedules list", "schedules show", "operations list", "operations show", "notify list",
    "doctor", "dump", "restore",
}  # fmt: skip
SECRET = "whsec_" + "aHVudGVyMmh1bnRlcjJodW50ZXIyaHVudGVyMg=="
URL = "https://billing.example.com/hooks?token=hunter2"


def acts(shell: Shell) -> list[dict[str, Any]]:
    """Read the audit, the oldest record first."""
    listed: list[dict[str, Any]] = shell("audit", "--json").json["acts"]
    return listed[::-1]


def names_of(group: Any, *, before: str = "") -> Iterator[str]:
    """Yield the names of all commands, such as "endpoints add"."""
    for name, command in group.commands.items():
        inner = names_of(command, before=f"{name} ") if hasattr(command, "commands") else [f"{before}{name}"]
        yield from inner


def test_each_command_is_listed_as_an_operators_verb_or_as_another_command() -> None:
    names = list(names_of(typer.main.get_command(app)))

    assert len(set(names)) == len(names)
    assert set(names) - OTHERS == set(VERBS)
    assert set(names) - set(VERBS) == OTHERS


def test_a_record_has_the_author_the_request_and_the_outcome(shell: Shell) -> None:
    shell("tenants", "set", "acme", "--timers", 5)
    shell("tenants", "remove", "acme")
    shell("ramp", 100)
    prefix = shell("keys", "add", "on-call", "--all-tenants", "--scope", "admin", "--json").json["prefix"]
    shell("keys", "revoke", prefix)
    shell("keys", "revoke", prefix)
    shell("jobs", "disable", "nightly")

    left = acts(shell)
    changes = [left[at]["parameters"].pop("changes")[0] for at in (0, 1)]
    assert changes == ["timers_max the gateways' setting → 5", "timers_max 5 → the gateways' setting"]
    found = [(act["role"], act["verb"], act["parameters"], act["outcome"]) for act in left]
    assert found == [
        ("test_shard", "tenants set", {"tenant": "acme", "timers": "5"}, "done"),
        ("test_shard", "tenants remove", {"tenant": "acme"}, "done"),
        ("test_shard", "ramp", {"per_second": "100"}, "done"),
        ("test_owner", "keys add", {"name": "on-call", "scopes": ["admin"], "all_tenants": True}, "done"),
        ("test_owner", "keys revoke", {"prefix": prefix}, "done"),
        ("test_owner", "keys revoke", {"prefix": prefix}, "done"),
        ("test_scheduler", "jobs disable", {"name": "nightly"}, "not done"),
    ]
    assert {act["interface"] for act in acts(shell)} == {"cli"}
    lines = shell("audit", "--limit", 1).out.splitlines()
    assert [line.split()[-1] for line in lines] == ["outcome", "done"]


def test_a_command_that_only_reads_leaves_no_record(shell: Shell) -> None:
    asyncio.run(add_timers(shell.dsn, 2))
    for words in (
        ["scale"], ["ramp"], ["tenants"], ["tenants", "show", "acme"], ["keys"], ["endpoints"], ["jobs"], ["status"],
        ["cancel", "--all"], ["dead-letters", "redrive", "--all"], ["consumers", "reset", "g", "--to", "start"],
        ["release"], ["schedule", "--in", "1h", "--name", "n"], ["cancel", "--name", "n"], ["audit"],
    ):  # fmt: skip
        shell(*words)

    assert acts(shell) == []
    assert shell("audit").err == "the audit has no records yet\n"
    assert shell("audit", "--since", "2020-01-01T00:00Z").err == "there are no such records\n"


def test_no_secret_is_recorded(shell: Shell) -> None:
    added = shell(
        "endpoints", "add", "billing", "--url", URL, "--header", "x-token: hunter2", "--secret", "-",
        stdin=SECRET.encode(),
    )  # fmt: skip
    assert added.code == DONE, added.err
    shell("jobs", "configure", "refresh", '{"password": "hunter2"}')

    assert acts(shell)[0]["parameters"] == {
        "name": "billing", "url": "…", "headers": "…", "secret": "…", "tenant": "default"
    }  # fmt: skip
    assert "hunter2" not in shell("audit", "--json").out + shell("audit").out


def test_a_change_that_can_t_be_recorded_is_reported(shell: Shell) -> None:
    with mock.patch.object(recording, "record_act", side_effect=StoreUnavailable("no answer")):
        done = shell("tenants", "set", "acme", "--timers", 5)
    assert done.code == NOT_THERE
    assert done.err == "shardclock: tenants set is done, and the audit has no record of it: no answer\n"
    assert shell.sql("select tenant_id from shardclock.tenants")[0][0] == "acme"


def test_a_verb_that_fails_half_way_is_recorded_as_failed(shell: Shell) -> None:
    with mock.patch("shardclock_server.cli.tenants.use_cases.set_own", side_effect=StoreUnavailable("no answer")):
        assert shell("tenants", "set", "acme", "--timers", 5).code == NOT_THERE
    assert [act["outcome"] for act in acts(shell)] == ["failed"]


def test_a_leaving_host_is_recorded_once(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    async def moved(*_: object, **__: object) -> Counter[str]:
        return Counter()

    monkeypatch.setattr("shardclock_server.cli.handover.move_away", moved)
    assert shell("leave", "--within", 1).code == DONE
    assert [act["verb"] for act in acts(shell)] == ["leave"]
