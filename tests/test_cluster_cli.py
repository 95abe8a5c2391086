"""Prove what holds for every command, and that those that watch and steer the cluster do what they say."""

from __future__ import annotations

import asyncio
import os
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from typing import Any

import psutil
import pytest

from cluster.cli.ramp import span_of
from sql.migrate import migrations
from tests.commands import (
    BIG,
    DONE,
    DOWN,
    NOT_DONE,
    NOT_THERE,
    SECRET,
    WRONG_SCHEMA,
    assert_refused,
    end_all,
)
from tests.postgres import Server
from tests.program import PROGRAM, Shell, run
from tests.store import BOUND_S, add_holder, add_timers, query


@pytest.fixture
def shell(dsn: str, capsys: pytest.CaptureFixture[str]) -> Shell:
    """Run commands in this process, on a migrated, empty database."""
    return Shell(dsn, capsys)


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (["show", str(BIG + 1)], [str(BIG + 1)]),
        (["show", "first"], ["first"]),
        (["show"], ["either its key or --name"]),
        (["show", "1", "--name", "x"], ["either its key or --name"]),
        (["cancel", str(BIG + 1)], [str(BIG + 1)]),
        (["cancel", "1", "--reason", "\udcff"], ["'\\udcff'", "UTF-8"]),
        (["scale", "0"], ["0", "1 to 840"]),
        (["scale", "841"], ["841", "1 to 840"]),
        (["scale", "many"], ["many"]),
        (["ramp", "-1"], ["'-1'", "0 to 2147483647", "off"]),
        (["ramp", "2147483648"], ["'2147483648'", "0 to 2147483647"]),
        (["ramp", "9" * 5_000], ["0 to 2147483647"]),
        (["ramp", "slow"], ["'slow'", "off"]),
        (["ramp", "1.5"], ["'1.5'"]),
        (["ramp", "٣"], ["'٣'"]),
        (["ramp", "--colour"], ["'--colour'"]),
        (["ramp", "1", "2"], ["2"]),
        (["tail", "-n", "0"], ["0"]),
        (["up", "--shards", "841"], ["841"]),
        (["dance"], ["dance"]),
    ],
    ids=lambda item: " ".join(item)[:40],
)
def test_refuses_what_makes_no_sense_before_it_asks_the_database(
    capsys: pytest.CaptureFixture[str], command: list[str], words: list[str]
) -> None:
    assert_refused(Shell(DOWN, capsys)(*command), *words)


# tail, status, scale


def test_tails_each_record_once_in_order(shell: Shell) -> None:
    keys = [shell("schedule", "--in", "PT1H", "--json").json["timer_key"] for _ in range(3)]
    for key in keys:
        shell("cancel", key)

    done = shell("tail", "--from-start", "--stop", "--json")

    assert (done.code, done.err) == (DONE, "")
    assert [(record["timer_key"], record["intent"]) for record in done.lines] == [(key, "CANCELED") for key in keys]
    assert [record["timer_key"] for record in shell("tail", "--from-start", "-n", 2, "--json").lines] == keys[:2]
    assert shell("tail", "--stop").out == "", "without --from-start only what is new"


def test_tails_for_people(shell: Shell) -> None:
    shell("schedule", "--at", "2020-01-01T00:00:00Z", "--name", "[bold]x", "--tenant", "acme")
    end_all(shell)

    done = shell("tail", "--from-start", "--stop")

    assert "TRIGGERED" in done.out
    assert "acme [bold]x" in done.out
    assert len(done.out.splitlines()) == 1


def test_status_tells_what_is_and_what_is_late(shell: Shell) -> None:
    asyncio.run(add_timers(shell.dsn, 3))
    asyncio.run(add_holder(shell.dsn, 0xABC, shard=1, shard_count=2))

    state = shell("status", "--json").json

    assert (state["pending"], state["overdue"], state["shards_wanted"]) == (3, 3, 2)
    assert [(holder["holder"], holder["shard"]) for holder in state["shards"]] == [("0000000000000abc", 1)]
    people = shell("status")
    assert "0000000000000abc" in people.out
    assert "1 of 2 wanted" in people.out
    assert people.err == ""


def test_status_names_the_cluster_that_stands_by_and_how_many_of_its_shards_live(shell: Shell) -> None:
    for holder, cluster_id, shard in ((1, "blue", 0), (2, "blue", 1), (3, "green", None), (4, "green", None)):
        asyncio.run(add_holder(shell.dsn, holder, shard, None if shard is None else 2))
        asyncio.run(
            query(shell.dsn, "update shardclock.holders set cluster_id = $2 where holder = $1", holder, cluster_id)
        )
    asyncio.run(query(shell.dsn, "update shardclock.holders set seen_at = seen_at - interval '10 s' where holder = 4"))

    lines = shell("status").out.splitlines()

    assert [line.split()[2:] for line in lines if line.startswith("stands by")] == [["green", "with", "1", "shard(s)"]]
    assert [line.split()[:4] for line in lines if " of 2 " in line and "wanted" not in line] == [
        ["0", "of", "2", "blue"],
        ["1", "of", "2", "blue"],
    ]
    assert [line.split()[:2] for line in lines if line.startswith("-")] == [["-", "green"]] * 2
    shards = shell("status", "--json").json["shards"]
    assert [(shard["cluster_id"], shard["shard"]) for shard in shards] == [
        ("blue", 0), ("blue", 1), ("green", None), ("green", None)
    ]  # fmt: skip


def test_status_tells_a_shard_that_is_not_heard_from_one_that_has_no_part(shell: Shell) -> None:
    for holder, shard in ((1, 0), (2, None), (3, None)):
        asyncio.run(add_holder(shell.dsn, holder, shard, None if shard is None else 1))
    asyncio.run(query(shell.dsn, "update shardclock.holders set suspended_at = now() where holder = 3"))

    rows = [line.split()[0] for line in shell("status").out.splitlines() if "000000000000000" in line]

    assert sorted(rows) == ["-", "0", "suspended"]


def test_status_says_nothing_of_standing_by_while_no_cluster_serves(shell: Shell) -> None:
    asyncio.run(add_holder(shell.dsn, 1, None, None))

    assert "stands by" not in shell("status").out


def test_status_without_a_shard_says_how_to_start_one(shell: Shell) -> None:
    done = shell("status")

    assert done.code == DONE
    assert "shardclock up" in done.err


def test_scales_what_is_wanted(shell: Shell) -> None:
    assert shell("scale", 7, "--json").json.items() >= {"before": 2, "wanted": 7, "serving": 0}.items()
    assert shell("status", "--json").json["shards_wanted"] == 7


def test_scale_says_when_the_shards_do_not_come(shell: Shell) -> None:
    assert shell("scale", 3, "--wait", "0.05", "--json").code == NOT_DONE


# ramp, and what an outage left


def add_outage(shell: Shell, left: int, *, served: bool = True) -> None:
    """Leave timers overdue by an hour, and a shard that is about to fire them."""
    asyncio.run(add_timers(shell.dsn, left, "now() - interval '1 hour'"))
    if served:
        asyncio.run(add_holder(shell.dsn, 0xABC))


def test_sets_the_ramp_and_shows_it(shell: Shell) -> None:
    at_first = shell("ramp", "--json").json
    assert (at_first["left_by_outage"], at_first["caught_up_in_s"]) == (0, 0)
    assert shell("ramp", "500", "--json").json == {"before": at_first["ramp_per_s"], "ramp_per_s": 500}
    assert shell("ramp", "off", "--json").json == {"before": 500, "ramp_per_s": None}
    assert shell("ramp", "0", "--json").json == {"before": None, "ramp_per_s": 0}
    assert shell("ramp", "--json").json["ramp_per_s"] == 0
    assert "held back" in shell("ramp").out
    assert shell("ramp", "2147483647").out.split()[2:] == ["0:", "held", "back", "2,147,483,647", "a", "second"]


@pytest.mark.parametrize(
    ("rate", "words", "caught_up_in_s"),
    [
        ("1", ["at 1 a second", "caught up in about 2 min 5 s"], 125),
        ("500", ["at 500 a second", "caught up in about 1 s"], 0.25),
        ("0", ["held back", "`shardclock ramp 1000`"], None),
        ("off", ["without a limit"], None),
    ],
)
def test_tells_what_an_outage_left_and_how_long_it_will_take(
    shell: Shell, rate: str, words: list[str], caught_up_in_s: float | None
) -> None:
    add_outage(shell, 125)

    shell("ramp", rate)

    for command in ("status", "ramp"):
        told = shell(command).out
        for word in ["125 timers", *words]:
            assert word in told
        state = shell(command, "--json").json
        assert (state["left_by_outage"], state["caught_up_in_s"]) == (125, caught_up_in_s)


def test_promises_no_end_of_an_outage_while_no_shard_runs(shell: Shell) -> None:
    add_outage(shell, 3, served=False)

    for command in ("status", "ramp"):
        assert "3 timers, which wait for a shard to run" in shell(command).out


def test_status_speaks_of_no_outage_when_there_was_none(shell: Shell) -> None:
    asyncio.run(add_timers(shell.dsn, 3))

    assert "outage" not in shell("status").out


@pytest.mark.parametrize(
    ("length_s", "words"),
    [(0.2, "1 s"), (59.6, "1 min"), (61, "1 min 1 s"), (7_505, "2 h 5 min"), (86_400, "1 d"), (1e9, "11,574 d 1 h")],
)
def test_writes_a_length_of_time_for_people(length_s: float, words: str) -> None:
    assert span_of(length_s) == words


def test_status_counts_what_is_paused(shell: Shell) -> None:
    shell("schedule", "--in", "PT1H")
    shell("schedule", "--in", "PT1H", "--name", "rests")
    shell("pause", "--name", "rests")

    assert shell("status", "--json").json["paused"] == 1
    assert "2, 1 of them paused" in shell("status").out


# the database


@pytest.fixture
def bare(postgres: Callable[[int], Server]) -> Iterator[str]:
    """Name a database without our schema."""
    server = postgres(18)
    dsn = server.clone()
    asyncio.run(query(dsn, "drop schema shardclock cascade"))
    yield dsn
    server.drop(dsn)


COMMANDS: list[list[Any]] = [
    ["schedule", "--in", "PT1S"], ["schedule", "--file", "-"], ["list"], ["show", 1], ["cancel", 1],
    ["cancel", "--all", "--yes"], ["reschedule", 1, "--in", "PT1S"], ["reschedule", 1, "--cron", "@daily"],
    ["reschedule", "--all", "--shift", "PT1S"], ["explain", 1], ["pause", 1], ["resume", 1], ["run-now", 1], ["ramp"],
    ["ramp", 1], ["tail", "--stop"], ["status"], ["scale", 2], ["scale"], ["forecast"], ["switch", "x"], ["leave"],
    ["release"],
]  # fmt: skip


@pytest.mark.parametrize("command", [*COMMANDS, ["up"]], ids=lambda command: command[0])
def test_a_wrong_schema_is_said_with_the_command_that_mends_it(
    bare: str, capsys: pytest.CaptureFixture[str], command: list[Any]
) -> None:
    assert_refused(Shell(bare, capsys)(*command), "version 0", "`shardclock migrate`", code=WRONG_SCHEMA)


def test_migrates_and_says_what_it_did(bare: str, capsys: pytest.CaptureFixture[str]) -> None:
    shell = Shell(bare, capsys)

    assert shell("migrate", "--json").json == {"applied": [step.name for step in migrations()]}
    assert shell("migrate", "--json").json == {"applied": []}
    assert "up to date" in shell("migrate").out
    assert shell("schedule", "--in", "PT1S").code == DONE


def test_prints_the_schema_for_a_dba(bare: str, capsys: pytest.CaptureFixture[str]) -> None:
    shell = Shell(bare, capsys)

    script = shell("migrate", "--sql", SHARDCLOCK_DSN="postgresql://nobody.invalid/x").out

    asyncio.run(query_script(bare, script))
    assert shell("migrate", "--json").json == {"applied": []}


async def query_script(dsn: str, script: str) -> None:
    """Run a script of many statements, as psql would."""
    import asyncpg

    connection = await asyncpg.connect(dsn, timeout=BOUND_S)
    try:
        await connection.execute(script)
    finally:
        await connection.close(timeout=BOUND_S)


@pytest.mark.parametrize(
    "command",
    [*(command for command in COMMANDS if "--file" not in command), ["migrate"]],
    ids=lambda command: command[0],
)
def test_a_database_that_is_down_is_said_without_its_password(
    capsys: pytest.CaptureFixture[str], command: list[Any]
) -> None:
    done = Shell(DOWN, capsys)(*command)

    assert_refused(done, "Postgres does not answer", "SHARDCLOCK_DSN", code=NOT_THERE)
    assert SECRET not in done.err


@pytest.mark.parametrize(
    "dsn",
    [
        f"mysql://user:{SECRET}@localhost/x",
        f"postgresql://user:{SECRET}@localhost:port/x",
        f"postgresql://user:{SECRET}@localhost/x?sslmode=maybe",
        f"postgresql://user:{SECRET}@[::1/x",
        f"user:{SECRET}@localhost",
        "",
    ],
)
@pytest.mark.parametrize("command", ["status", "up"])
def test_a_dsn_that_makes_no_sense_is_refused_without_its_password(
    capsys: pytest.CaptureFixture[str], dsn: str, command: str
) -> None:
    done = Shell(dsn, capsys)(command)

    assert_refused(done, "SHARDCLOCK_DSN")
    assert SECRET not in done.err


def test_a_database_that_does_not_exist_is_said(shell: Shell) -> None:
    wrong = shell.dsn.replace("/t_", "/no_")

    assert_refused(shell("status", SHARDCLOCK_DSN=wrong), "does not exist", "SHARDCLOCK_DSN", code=NOT_THERE)


def test_wrong_settings_are_said(shell: Shell) -> None:
    assert_refused(shell("status", SHARDCLOCK_LEASE_S="1"), "SHARDCLOCK_LEASE_S")


# a process of its own


def test_a_reader_that_goes_away_ends_a_command_quietly(shell: Shell) -> None:
    asyncio.run(add_timers(shell.dsn, 1000, "now() + interval '1 hour'"))
    with subprocess.Popen(
        [*PROGRAM, "list", "-n", "1000", "--json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=os.environ | {"SHARDCLOCK_DSN": shell.dsn},
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.read(10)
        process.stdout.close()
        assert process.stderr.read() == b""


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
    "up", "demo", "migrate", "exporter", "scale", "forecast", "ramp", "switch", "leave", "release",
    "schedule", "preview", "list", "show", "explain", "cancel", "reschedule",
    "pause", "resume", "run-now", "tail", "status",
]  # fmt: skip


@pytest.mark.parametrize("command", ["", *HELPED])
def test_every_command_has_help(capsys: pytest.CaptureFixture[str], command: str) -> None:
    done = Shell(DOWN, capsys)(*command.split(), "--help")

    assert (done.code, done.err) == (DONE, "")
    assert done.out.lstrip().startswith("Usage: ")


def test_help_lists_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    listed = Shell(DOWN, capsys)("--help").out.partition("Commands:")[2]

    assert [line.split()[0] for line in listed.splitlines() if line.startswith("  ")] == HELPED


@pytest.mark.slow
def test_without_a_dsn_every_command_finds_the_same_data() -> None:
    with tempfile.TemporaryDirectory(prefix="shardclock-test-") as place:
        environment = {"SHARDCLOCK_DATA_DIR": place}
        first = run("schedule", "--in", "PT1H", "--name", "kept", environment=environment)
        second = run("list", "--json", environment=environment)

        assert (first.code, first.err) == (DONE, "")
        assert [timer["name"] for timer in second.json["timers"]] == ["kept"]
        assert not [it for it in psutil.process_iter(["cmdline"]) if place in " ".join(it.info["cmdline"] or [])]
