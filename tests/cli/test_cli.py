"""All commands follow the same rules for errors, settings and help; commands for a whole cluster succeed."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from shardclock_server.service.wording import span_of, until_of
from shardclock_server.sql.scripts import functions, steps
from tests.support.cli_asserts import BAD_INPUT, DONE, DOWN, NOT_THERE, SECRET, WRONG_SCHEMA, assert_refused
from tests.support.factories import BOUND_S, add_holder, add_timers, sql
from tests.support.postgres import Server
from tests.support.program import PROGRAM, Shell

# the ramp, and the timers that became due during an outage


def test_the_ramp_is_set_and_shown(shell: Shell) -> None:
    at_first = shell("ramp", "--json").json
    assert (at_first["left_by_outage"], at_first["caught_up_in_s"]) == (0, 0)
    assert shell("ramp", "500", "--json").json == {"before": at_first["ramp_per_s"], "ramp_per_s": 500}
    assert shell("ramp", "off", "--json").json == {"before": 500, "ramp_per_s": None}
    assert shell("ramp", "0", "--json").json == {"before": None, "ramp_per_s": 0}
    assert shell("ramp", "--json").json["ramp_per_s"] == 0
    assert "held back" in shell("ramp").out
    assert shell("ramp", "default", "--json").json == {"before": 0, "ramp_per_s": at_first["ramp_per_s"]}
    shell("ramp", "0")
    assert shell("ramp", "2147483647").out.split()[2:] == ["0:", "held", "back", "2,147,483,647", "a", "second"]


def test_the_timers_of_an_outage_are_shown_with_the_remaining_time(shell: Shell) -> None:
    asyncio.run(add_timers(shell.dsn, 125, "now() - interval '1 hour'"))
    asyncio.run(add_holder(shell.dsn, 0xABC))
    for rate, words, caught_up_in_s in (
        ("1", ["at 1 a second", "for about 2 min 5 s, until about ", " UTC"], 125),
        ("500", ["at 500 a second", "for about 1 s"], 0.25),
        ("0", ["waiting because the ramp is 0", "`shardclock ramp 1000`"], None),
        ("off", ["without a limit"], None),
    ):
        shell("ramp", rate)
        for command in ("status", "ramp"):
            told, state = shell(command).out, shell(command, "--json").json
            assert [word for word in ("125 timers", *words) if word not in told] == []
            assert (state["left_by_outage"], state["caught_up_in_s"]) == (125, caught_up_in_s)


@pytest.mark.parametrize(
    ("length_s", "words"),
    [(0.2, "1 s"), (59.6, "1 min"), (61, "1 min 1 s"), (7_505, "2 h 5 min"), (86_400, "1 d"), (1e9, "11,574 d 1 h")],
)
def test_a_duration_is_written_in_readable_units(length_s: float, words: str) -> None:
    assert span_of(length_s) == words


@pytest.mark.parametrize(
    ("length_s", "words"),
    [
        (4_260, "for about 1 h 11 min, until about 05:00 UTC"),
        (86_400, "for about 1 d, until about 2027-02-01 03:49 UTC"),
        (1e12, "for about 11,574,074 d 1 h"),
    ],
)
def test_an_estimated_end_is_written_with_the_duration_and_the_moment(length_s: float, words: str) -> None:
    assert until_of(length_s, datetime(2027, 1, 31, 3, 49, tzinfo=UTC)) == words


# the database


@pytest.fixture
def bare(postgres: Callable[[int], Server]) -> Iterator[str]:
    """Yield the DSN of a database without our schema."""
    with postgres(18).database() as dsn:
        sql(dsn, "drop schema shardclock cascade")
        yield dsn


@pytest.fixture
def own_temp_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Give the process its own temporary directory: `up` reports abandoned directories in a shared one."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))


COMMANDS: list[list[Any]] = [
    ["schedule", "--in", "PT1S"], ["schedule", "--file", "-"], ["list"], ["show", 1], ["cancel", 1],
    ["cancel", "--all", "--yes"], ["reschedule", 1, "--in", "PT1S"], ["reschedule", 1, "--cron", "@daily"],
    ["reschedule", "--all", "--shift", "PT1S"], ["explain", 1], ["pause", 1], ["resume", 1], ["run-now", 1], ["ramp"],
    ["ramp", 1], ["tail", "--stop"], ["status"], ["scale", 2], ["scale"], ["forecast"], ["switch", "x"], ["leave"],
    ["hold", "why"], ["release"],
]  # fmt: skip


def test_a_wrong_schema_is_reported_with_the_command_that_corrects_it(
    bare: str, capsys: pytest.CaptureFixture[str], own_temp_dir: None
) -> None:
    for command in [*COMMANDS[::4], ["up"]]:
        assert_refused(Shell(bare, capsys)(*command), "version 0", "`shardclock migrate`", code=WRONG_SCHEMA)


def test_migrate_reports_the_applied_steps(bare: str, capsys: pytest.CaptureFixture[str]) -> None:
    shell = Shell(bare, capsys)

    # Given a superuser, because the first migration has to create the schema.
    assert shell("migrate", "--json", SHARDCLOCK_DSN=bare).json == {
        "applied": [step.name for step in steps()],
        "functions": list(functions()),
    }
    assert shell("migrate", "--json", SHARDCLOCK_DSN=bare).json == {"applied": [], "functions": []}
    assert "up to date" in shell("migrate", SHARDCLOCK_DSN=bare).out


def test_migrate_prints_the_schema_for_a_dba(bare: str, capsys: pytest.CaptureFixture[str]) -> None:
    shell = Shell(bare, capsys)

    script = shell("migrate", "--sql", "--roles", SHARDCLOCK_DSN="postgresql://nobody.invalid/x").out

    asyncio.run(query_script(bare, script))
    assert shell("migrate", "--json").json == {"applied": [], "functions": []}


async def query_script(dsn: str, script: str) -> None:
    """Run a script of many statements, as psql would."""
    import asyncpg

    connection = await asyncpg.connect(dsn, timeout=BOUND_S)
    try:
        await connection.execute(script)
    finally:
        await connection.close(timeout=BOUND_S)


def test_a_database_that_is_down_is_reported_without_its_password(capsys: pytest.CaptureFixture[str]) -> None:
    for command in (*(command for command in COMMANDS if "--file" not in command), ["migrate"]):
        done = Shell(DOWN, capsys)(*command)
        assert_refused(done, "Postgres does not answer at 127.0.0.1:1: ", "SHARDCLOCK_DSN", code=NOT_THERE)
        assert SECRET not in done.err


def test_an_invalid_dsn_is_refused_without_its_password(capsys: pytest.CaptureFixture[str]) -> None:
    for dsn in (
        f"mysql://user:{SECRET}@localhost/x",
        f"postgresql://user:{SECRET}@localhost:port/x",
        f"postgresql://user:{SECRET}@localhost/x?sslmode=maybe",
        f"postgresql://user:{SECRET}@[::1/x",
        f"user:{SECRET}@localhost",
        "",
    ):
        for command in ("status", "up"):
            done = Shell(dsn, capsys)(command)
            assert_refused(done, "SHARDCLOCK_DSN")
            assert SECRET not in done.err


def test_a_database_that_does_not_exist_is_reported(shell: Shell) -> None:
    wrong = shell.dsn.replace("/t_", "/no_")

    assert_refused(shell("status", SHARDCLOCK_DSN=wrong), "does not exist", "SHARDCLOCK_DSN", code=NOT_THERE)


def test_all_wrong_settings_are_reported_each_on_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    done = Shell(DOWN, capsys)("status", SHARDCLOCK_LEASE_S="soon", SHARDCLOCK_SHARDS="0")

    lines = done.err.splitlines()
    assert (done.code, done.out, len(lines)) == (BAD_INPUT, "", 2)
    assert {" ".join(line.split()[:4]) for line in lines} == {
        "shardclock: SHARDCLOCK_SHARDS is '0':",
        "shardclock: SHARDCLOCK_LEASE_S is 'soon':",
    }


def test_an_unknown_variable_is_reported_and_the_command_runs(shell: Shell) -> None:
    done = shell("status", "--json", SHARDCLOCK_DNS="postgresql://elsewhere/x")

    assert (done.code, done.json["pending"]) == (DONE, 0)
    assert "SHARDCLOCK_DNS is not a setting" in done.err
    assert "SHARDCLOCK_DSN meant?" in done.err


def test_contradicting_settings_are_reported(shell: Shell) -> None:
    assert_refused(shell("status", SHARDCLOCK_POLL_S="3"), "SHARDCLOCK_POLL_S", "SHARDCLOCK_HORIZON_S")


# a separate process


def test_ctrl_c_ends_a_tail_quietly(shell: Shell) -> None:
    with subprocess.Popen(
        [*PROGRAM, "tail", "--from-start"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=os.environ | {"SHARDCLOCK_DSN": shell.dsn},
    ) as process:
        asyncio.run(add_timers(shell.dsn, 1))
        shell("cancel", shell("list", "--json").json["timers"][0]["timer_key"])
        assert process.stdout is not None
        assert b"CANCELED" in process.stdout.readline()
        process.send_signal(2)
        _, err = process.communicate(timeout=BOUND_S)
        assert (process.returncode, err) == (130, b"")


HELPED = [
    "up", "gateway", "demo", "migrate", "exporter", "dsn", "psql", "dump", "restore", "scale", "forecast", "ramp",
    "switch", "leave", "hold", "release", "schedule", "preview", "list", "show", "explain", "cancel", "reschedule",
    "pause", "resume", "run-now", "operate", "deploy", "tail", "status", "doctor", "targets", "audit", "consumers",
    "dead-letters", "deliveries", "endpoints", "jobs", "keys", "notify", "operations", "processes", "schedules",
    "tasks", "tenants",
]  # fmt: skip


def test_every_command_has_help(capsys: pytest.CaptureFixture[str]) -> None:
    for command in ("", *HELPED):
        done = Shell(DOWN, capsys)(*command.split(), "--help")
        assert (done.code, done.err, done.out.lstrip()[:7]) == (DONE, "", "Usage: "), command


def test_without_a_command_the_help_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    shell = Shell(DOWN, capsys)

    alone, asked = shell(), shell("--help")

    assert (alone.code, alone.out, alone.err) == (BAD_INPUT, asked.out, "")


def test_help_lists_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    listed = Shell(DOWN, capsys)("--help").out.partition("Commands:")[2]

    assert re.findall(r"^  (\S+)", listed, re.MULTILINE) == HELPED
