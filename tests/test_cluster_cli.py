"""Prove that each command does what it says, answers people and programs, and refuses in one line."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from sql.migrate import migrations
from tests.postgres import Server
from tests.program import PROGRAM, Done, Shell, run
from tests.store import BOUND_S, add_holder, add_timers, query, value

DONE, NOT_DONE, BAD_INPUT, NOT_THERE, WRONG_SCHEMA = range(5)
BIG = 9_223_372_036_854_775_807


@pytest.fixture
def shell(dsn: str, capsys: pytest.CaptureFixture[str]) -> Shell:
    """Run commands in this process, on a migrated, empty database."""
    return Shell(dsn, capsys)


@pytest.fixture
def folder() -> Iterator[Path]:
    """Give a directory for files."""
    with tempfile.TemporaryDirectory(prefix="shardclock-test-") as path:
        yield Path(path)


def count(shell: Shell) -> int:
    """Count the pending timers."""
    return int(asyncio.run(value(shell.dsn, "select count(*) from shardclock.timers")))


def fire_all(shell: Shell) -> None:
    """Let a shard come by that fires whatever is due."""

    async def fire() -> None:
        await add_holder(shell.dsn, 1)
        await query(
            shell.dsn,
            "with gone as (delete from shardclock.timers where due_date <= now() returning *)"
            " insert into shardclock.command_log (intent, timer_key, tenant_id, name, timer_type, due_date,"
            " created_at, occurrence, target, payload)"
            " select 'TRIGGERED', timer_key, tenant_id, name, timer_type, due_date, created_at, occurrence, target,"
            " payload from gone",
        )

    asyncio.run(fire())


def assert_refused(done: Done, *words: str, code: int = BAD_INPUT) -> None:
    """Demand one line on stderr that holds the words, and nothing on stdout."""
    assert (done.code, done.out) == (code, ""), done
    assert len(done.err.splitlines()) == 1, done.err
    assert done.err.startswith("shardclock: ")
    for word in words:
        assert word in done.err


# schedule


def test_schedules_after_a_delay(shell: Shell) -> None:
    done = shell(
        "schedule", "--in", "PT15M", "--name", "invoice", "--tenant", "acme", "--payload", '{"a": 1}', "--json"
    )

    assert (done.code, done.err) == (DONE, "")
    shown = shell("show", done.json["timer_key"], "--json").json["timer"]
    assert (shown["name"], shown["tenant_id"], shown["payload"]) == ("invoice", "acme", {"a": 1})
    assert shown["due_date"] == done.json["due_date"]


def test_schedules_at_a_moment(shell: Shell) -> None:
    done = shell("schedule", "--at", "2030-01-31T09:00:00+01:00", "--json")

    assert done.json["due_date"] == "2030-01-31T08:00:00Z"


def test_schedules_a_repeat(shell: Shell) -> None:
    done = shell("schedule", "--every", "R5/PT1H", "--name", "beat", "--json")

    shown = shell("show", "--name", "beat", "--json").json["timer"]
    assert (shown["timer_key"], shown["schedule"], shown["occurrence"]) == (done.json["timer_key"], "R5/PT1H", 1)


def test_tells_people_what_it_scheduled(shell: Shell) -> None:
    done = shell("schedule", "--at", "2030-01-31T08:00:00Z")

    assert (done.code, done.err) == (DONE, "")
    assert "2030-01-31 08:00:00.000Z" in done.out


def test_takes_a_past_due_date(shell: Shell) -> None:
    assert shell("schedule", "--at", "2001-01-01T00:00:00Z").code == DONE
    assert count(shell) == 1


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--at", "infinity"], ["'infinity'", "not an ISO 8601 date-time", "years 0001 to 9999"]),
        (["--at", "20000-01-01T00:00:00Z"], ["'20000-01-01T00:00:00Z'", "years 0001 to 9999"]),
        (["--at", "9999-12-31T23:59:59-01:00"], ["'9999-12-31T23:59:59-01:00'", "years 0001 to 9999"]),
        (["--at", "2030-01-31T08:00:00"], ["'2030-01-31T08:00:00'", "no offset"]),
        (["--at", "2030-02-30T08:00:00Z"], ["'2030-02-30T08:00:00Z'", "calendar"]),
        (["--in", "15 minutes"], ["'15 minutes'", "not an ISO 8601 duration", "PT15M"]),
        (["--in", "PT"], ["'PT'", "not an ISO 8601 duration"]),
        (["--in", "-PT1S"], ["'-PT1S'", "without a sign"]),
        (["--in", "P9999Y11M30D"], ["'P9999Y11M30D'", "years 1 to 9999"]),
        (["--in", "P10000Y"], ["'P10000Y'", "shorter than 10,000 years"]),
        (["--every", "R-2/PT1S"], ["'R-2/PT1S'", "-2", "R0 to R"]),
        (["--every", "R/PT0S"], ["'R/PT0S'", "period of zero"]),
        (["--every", "PT1H"], ["'PT1H'", "not an ISO 8601 repeat", "R/PT1H"]),
        (["--every", "R/P1M"], ["'R/P1M'", "years or months"]),
        (["--in", "PT1S", "--payload", '"a\\u0000"'], ["\\u0000", "NUL", "leave it out"]),
        (["--in", "PT1S", "--payload", json.dumps("x" * 65_536)], ["65,536 bytes"]),
        (["--in", "PT1S", "--payload", "{"], ["'{'", "not JSON"]),
        (["--in", "PT1S", "--payload", "NaN"], ["NaN", "no JSON number"]),
        (["--in", "PT1S", "--payload", "[" * 101 + "]" * 101], ["100 levels"]),
        (["--in", "PT1S", "--name", "a\nb"], ["'a\\nb'", "control character"]),
        (["--in", "PT1S", "--name", ""], ["name ''", "1 to 200 characters"]),
        (["--in", "PT1S", "--tenant", "x" * 201], ["tenant_id", "1 to 200 characters"]),
        ([], ["exactly one of", "none"]),
        (["--in", "PT1S", "--at", "2030-01-31T08:00:00Z"], ["exactly one of", "due_date and delay"]),
        (["--file", "x.ndjson", "--in", "PT1S"], ["--file"]),
        (["--refused-to", "x.ndjson", "--in", "PT1S"], ["--refused-to", "--file"]),
        (["--start-line", "3", "--in", "PT1S"], ["--start-line", "--file"]),
        (["--in"], ["--in"]),
        (["--colour", "red"], ["--colour"]),
        (["PT1S"], ["PT1S"]),
        (["--start-line", "0", "--file", "-"], ["--start-line", "0"]),
    ],
    ids=lambda item: " ".join(item)[:40] if isinstance(item, list) else None,
)
def test_refuses_what_cannot_be_a_timer_and_stores_nothing(shell: Shell, options: list[str], words: list[str]) -> None:
    done = shell("schedule", *options)

    if done.code == NOT_DONE:  # Postgres's clock is needed to know
        assert_refused(done, *words, code=NOT_DONE)
    else:
        assert_refused(done, *words)
    assert count(shell) == 0


def test_refuses_a_name_that_is_taken(shell: Shell) -> None:
    shell("schedule", "--in", "PT1H", "--name", "invoice")

    done = shell("schedule", "--in", "PT2H", "--name", "invoice")

    assert_refused(done, "'invoice'", "taken", "cancel or reschedule", code=NOT_DONE)
    assert count(shell) == 1


def test_gives_each_tenant_its_own_names(shell: Shell) -> None:
    assert shell("schedule", "--in", "PT1H", "--name", "invoice", "--tenant", "acme").code == DONE
    assert shell("schedule", "--in", "PT1H", "--name", "invoice", "--tenant", "globex").code == DONE


# schedule --file

GOOD = b'{"delay": "PT1H", "name": "good-%d"}'
BAD = [
    (b'{"due_date": "infinity"}', "infinity"),
    (b'{"due_date": "20000-01-01T00:00:00Z"}', "20000-01-01"),
    (b'{"delay": "PT1S", "name": "a\\u0000b"}', "control character"),
    (b'{"delay": "PT1S", "payload": {"a": "\\u0000"}}', "NUL"),
    (b'{"delay": "1 hour"}', "1 hour"),
    (b'{"schedule": "R-2/PT1S"}', "R-2/PT1S"),
    (b'{"schedule": "R/PT0S"}', "period of zero"),
    (b'{"delay": "PT1S", "payload": "' + b"x" * 65_536 + b'"}', "65,536 bytes"),
    (b'{"delay": "PT1S", "target": "webhook"}', "webhook"),
    (b'{"delay": "PT1S", "colour": "red"}', "colour"),
    (b"{", "not JSON"),
    (b"[1]", "not a JSON object"),
    (b"\xff\xfe", "UTF-8"),
    (b"{" + b" " * 200_000 + b"}", "131,072 bytes"),
    (b'{"delay": "P9999Y11M30D"}', "years 1 to 9999"),
    (b'{"delay": "PT1H", "name": "good-0"}', "taken"),
]


def test_schedules_every_good_line_and_names_every_bad_one(shell: Shell, folder: Path) -> None:
    lines, bad_numbers = [], []
    for index, (bad, _) in enumerate(BAD):
        lines += [GOOD % index, b"", bad, b"   "]
        bad_numbers.append(4 * index + 3)
    file, refused_to = folder / "timers.ndjson", folder / "refused.ndjson"
    file.write_bytes(b"\n".join([*lines, b'{"delay": "PT2H", "name": "last"}']))

    done = shell("schedule", "--file", file, "--refused-to", refused_to, "--json")

    assert (done.code, done.err) == (NOT_DONE, "")
    assert done.json["scheduled"] == len(BAD) + 1 == count(shell)
    assert [refused["line"] for refused in done.json["refused"]] == bad_numbers
    for refused, (_, word) in zip(done.json["refused"], BAD, strict=True):
        assert word in refused["why"]
    kept = refused_to.read_bytes().splitlines()
    for line, (bad, _) in zip(kept, BAD, strict=True):
        # One that is too long is kept only as far as it was read: still too long, so it's refused again.
        assert line == bad[:131_073]


def test_tells_people_which_lines_were_refused(shell: Shell, folder: Path) -> None:
    file = folder / "timers.ndjson"
    file.write_bytes(b"\r\n".join([GOOD % 1, b'{"delay": "soon"}', GOOD % 2, b"{"] + [b"{"] * 30))

    done = shell("schedule", "--file", file)

    assert done.code == NOT_DONE
    told = done.err.splitlines()
    assert told[0].startswith("line 2: ")
    assert "'soon'" in told[0]
    assert told[1].startswith("line 4: ")
    assert "12 more lines" in told[-1]
    assert done.out.split() == ["scheduled", "refused", "2", "32"]


def test_reads_standard_input(shell: Shell) -> None:
    done = shell("schedule", "--file", "-", "--json", stdin=b"\n".join(GOOD % i for i in range(2_500)))

    assert (done.code, done.json) == (DONE, {"scheduled": 2_500, "refused": []})
    assert count(shell) == 2_500


def test_reads_lines_that_end_as_windows_ends_them(shell: Shell) -> None:
    done = shell("schedule", "--file", "-", "--json", stdin=b"".join(GOOD % i + b"\r\n" for i in range(3)) + b"\r\n")

    assert (done.code, done.json) == (DONE, {"scheduled": 3, "refused": []})


def test_an_empty_file_is_done(shell: Shell) -> None:
    assert shell("schedule", "--file", "-", "--json").json == {"scheduled": 0, "refused": []}


def test_begins_with_the_line_that_is_named(shell: Shell) -> None:
    lines = b"\n".join([b"{", GOOD % 1, b'{"delay": "soon"}', GOOD % 2])

    done = shell("schedule", "--file", "-", "--start-line", 2, "--json", stdin=lines)

    assert done.json["scheduled"] == 2
    assert [refused["line"] for refused in done.json["refused"]] == [3]


def test_what_was_refused_can_be_mended_and_sent_again(shell: Shell, folder: Path) -> None:
    refused_to = folder / "refused.ndjson"
    shell("schedule", "--file", "-", "--refused-to", refused_to, stdin=b'{"delay":"soon"}\n' + GOOD % 1)
    refused_to.write_bytes(refused_to.read_bytes().replace(b"soon", b"PT1H"))

    assert shell("schedule", "--file", refused_to, "--json").json == {"scheduled": 1, "refused": []}


def test_nothing_refused_leaves_an_empty_file(shell: Shell, folder: Path) -> None:
    refused_to = folder / "refused.ndjson"
    refused_to.write_text("of an earlier run")

    assert shell("schedule", "--file", "-", "--refused-to", refused_to, stdin=GOOD % 1).code == DONE
    assert refused_to.read_text() == ""


def test_refuses_a_file_it_cannot_read(shell: Shell, folder: Path) -> None:
    assert_refused(shell("schedule", "--file", folder / "none"), str(folder / "none"), "No such file")
    assert_refused(shell("schedule", "--file", folder), str(folder), "directory")


def test_refuses_a_place_for_refused_lines_before_it_schedules(shell: Shell, folder: Path) -> None:
    place = folder / "none" / "refused.ndjson"

    done = shell("schedule", "--file", "-", "--refused-to", place, stdin=GOOD % 1)

    assert_refused(done, str(place), "No such file")
    assert count(shell) == 0


# list, show


def test_lists_pending_timers_soonest_first(shell: Shell) -> None:
    for name, delay in (("late", "PT2H"), ("soon", "PT1H"), ("last", "PT3H")):
        shell("schedule", "--in", delay, "--name", name)

    listed = shell("list", "--json").json

    assert [(timer["name"], timer["state"]) for timer in listed] == [
        ("soon", "PENDING"), ("late", "PENDING"), ("last", "PENDING"),
    ]  # fmt: skip
    assert [timer["name"] for timer in shell("list", "-n", 1, "--json").json] == ["soon"]


def test_lists_what_ended_and_how(shell: Shell) -> None:
    shell("schedule", "--at", "2020-01-01T00:00:00Z", "--name", "fired")
    fire_all(shell)
    shell("schedule", "--in", "PT1H", "--name", "gone")
    shell("cancel", "--name", "gone")
    shell("schedule", "--in", "PT1H", "--name", "waits")

    def names(state: str) -> list[str]:
        return [timer["name"] for timer in shell("list", "--state", state, "--json").json]

    assert names("pending") == ["waits"]
    assert names("triggered") == ["fired"]
    assert names("canceled") == ["gone"]
    assert names("ended") == ["gone", "fired"]


def test_lists_one_tenants_alone(shell: Shell) -> None:
    shell("schedule", "--in", "PT1H", "--name", "a", "--tenant", "acme")
    shell("schedule", "--in", "PT1H", "--name", "b")

    assert [timer["name"] for timer in shell("list", "--tenant", "acme", "--json").json] == ["a"]


def test_lists_for_people(shell: Shell) -> None:
    shell("schedule", "--at", "2030-01-31T08:00:00Z", "--name", "[red]invoice[/red]")

    done = shell("list")

    assert done.code == DONE
    assert done.out.split()[:3] == ["timer_key", "state", "due"]
    assert "[red]invoice[/red]" in done.out, "a name is shown as it is"


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (["list", "--state", "lost"], ["'lost'", "pending, triggered, canceled or ended"]),
        (["list", "-n", "0"], ["0"]),
        (["show"], ["either its key or --name"]),
        (["show", "1", "--name", "x"], ["either its key or --name"]),
        (["show", "first"], ["first"]),
        (["show", str(BIG + 1)], [str(BIG + 1)]),
        (["cancel"], ["either its key or --name"]),
        (["cancel", str(BIG + 1)], [str(BIG + 1)]),
        (["reschedule", "1"], ["either --in or --at"]),
        (["reschedule", "1", "--in", "PT1S", "--at", "2030-01-31T08:00:00Z"], ["either --in or --at"]),
        (["reschedule", "1", "--in", "soon"], ["'soon'", "not an ISO 8601 duration"]),
        (["reschedule", "1", "--at", "infinity"], ["'infinity'"]),
        (["reschedule", "--in", "PT1S"], ["either its key or --name"]),
        (["scale", "0"], ["0", "1 to 840"]),
        (["scale", "841"], ["841", "1 to 840"]),
        (["scale", "many"], ["many"]),
        (["scale"], ["shards"]),
        (["tail", "-n", "0"], ["0"]),
        (["up", "--shards", "841"], ["841"]),
        (["dance"], ["dance"]),
    ],
    ids=lambda item: " ".join(item)[:40] if isinstance(item, list) else None,
)
def test_refuses_what_makes_no_sense(shell: Shell, command: list[str], words: list[str]) -> None:
    assert_refused(shell(*command), *words)


def test_shows_a_timer_and_what_happened_to_it(shell: Shell) -> None:
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


def test_says_that_there_is_no_such_timer(shell: Shell) -> None:
    for command in (["show", 42], ["cancel", 42], ["reschedule", 42, "--in", "PT1S"]):
        assert_refused(shell(*command), "no timer 42", code=NOT_DONE)
    assert_refused(shell("show", "--name", "x"), "'x' of tenant 'default'", code=NOT_DONE)


# cancel, reschedule


def test_cancels_by_key_and_by_name(shell: Shell) -> None:
    key = shell("schedule", "--in", "PT1H", "--json").json["timer_key"]
    shell("schedule", "--in", "PT1H", "--name", "b", "--tenant", "acme")

    assert (shell("cancel", key, "--json").json) == {"state": "CANCELED"}
    assert "CANCELED" in shell("cancel", "--name", "b", "--tenant", "acme").out
    assert count(shell) == 0


def test_cancelling_again_says_the_same(shell: Shell) -> None:
    key = shell("schedule", "--in", "PT1H", "--json").json["timer_key"]

    assert [shell("cancel", key).code for _ in range(2)] == [DONE, DONE]


def test_says_that_a_timer_has_fired_already(shell: Shell) -> None:
    key = shell("schedule", "--at", "2020-01-01T00:00:00Z", "--json").json["timer_key"]
    fire_all(shell)

    assert_refused(shell("cancel", key), "too late", str(key), "TRIGGERED", code=NOT_DONE)
    assert_refused(shell("reschedule", key, "--in", "PT1H"), "too late", "TRIGGERED", code=NOT_DONE)
    done = shell("cancel", key, "--json")
    assert (done.code, done.json) == (NOT_DONE, {"state": "TRIGGERED"})


def test_moves_a_timer(shell: Shell) -> None:
    key = shell("schedule", "--in", "PT1H", "--json").json["timer_key"]

    assert shell("reschedule", key, "--at", "2031-01-31T08:00:00Z", "--json").json == {"state": "RESCHEDULED"}
    assert shell("show", key, "--json").json["timer"]["due_date"] == "2031-01-31T08:00:00Z"


def test_moves_no_timer_beyond_the_calendar(shell: Shell) -> None:
    key = shell("schedule", "--at", "2030-01-31T08:00:00Z", "--json").json["timer_key"]

    assert_refused(shell("reschedule", key, "--in", "P9999Y11M30D"), "9999")
    assert shell("show", key, "--json").json["timer"]["due_date"] == "2030-01-31T08:00:00Z"


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
    fire_all(shell)

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


def test_status_without_a_shard_says_how_to_start_one(shell: Shell) -> None:
    done = shell("status")

    assert done.code == DONE
    assert "shardclock up" in done.err


def test_scales_what_is_wanted(shell: Shell) -> None:
    assert shell("scale", 7, "--json").json == {"before": 2, "wanted": 7, "serving": 0}
    assert shell("status", "--json").json["shards_wanted"] == 7


def test_scale_says_when_the_shards_do_not_come(shell: Shell) -> None:
    assert shell("scale", 3, "--wait", "0.05", "--json").code == NOT_DONE


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
    ["reschedule", 1, "--in", "PT1S"], ["tail", "--stop"], ["status"], ["scale", 2],
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


SECRET = "hunter2"
DOWN = f"postgresql://user:{SECRET}@127.0.0.1:1/shardclock"


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
        shell("cancel", shell("list", "--json").json[0]["timer_key"])
        assert process.stdout is not None
        assert b"CANCELED" in process.stdout.readline()
        process.send_signal(2)
        _, err = process.communicate(timeout=BOUND_S)
        assert (process.returncode, err) == (130, b"")


@pytest.mark.parametrize(
    "command",
    ["", *["up", "demo", "migrate", "scale", "schedule", "list", "show", "cancel", "reschedule", "tail", "status"]],
)
def test_every_command_has_help(shell: Shell, command: str) -> None:
    done = shell(*command.split(), "--help")

    assert (done.code, done.err) == (DONE, "")
    assert done.out.lstrip().startswith("Usage: ")


@pytest.mark.slow
def test_without_a_dsn_every_command_finds_the_same_data() -> None:
    with tempfile.TemporaryDirectory(prefix="shardclock-test-") as place:
        environment = {"SHARDCLOCK_DATA_DIR": place}
        first = run("schedule", "--in", "PT1H", "--name", "kept", environment=environment)
        second = run("list", "--json", environment=environment)

        assert (first.code, first.err) == (DONE, "")
        assert [timer["name"] for timer in second.json] == ["kept"]
        assert not [it for it in psutil.process_iter(["cmdline"]) if place in " ".join(it.info["cmdline"] or [])]
