"""`schedule` stores one timer or a file of timers, and refuses invalid input in one line."""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from shardclock_server.sql.clients.scheduling import ScheduleBatch
from tests.support.cli_asserts import DONE, NOT_DONE, assert_refused, count
from tests.support.factories import add_holder
from tests.support.program import Shell


@pytest.fixture
def folder() -> Iterator[Path]:
    """Create a directory for files."""
    with tempfile.TemporaryDirectory(prefix="shardclock-test-") as path:
        yield Path(path)


def shown(shell: Shell, *which: object) -> dict[str, Any]:
    """Read a stored timer."""
    timer: dict[str, Any] = shell("show", *which, "--json").json["timer"]
    return timer


def test_a_timer_is_scheduled_after_a_delay(shell: Shell) -> None:
    done = shell(
        "schedule", "--in", "PT15M", "--name", "invoice", "--tenant", "acme", "--payload", '{"a": 1}', "--json"
    )

    assert (done.code, done.err) == (DONE, "")
    timer = shown(shell, done.json["timer_key"])
    assert (timer["name"], timer["tenant_id"], timer["payload"]) == ("invoice", "acme", {"a": 1})
    assert timer["due_date"] == done.json["due_date"]


def test_a_scheduled_timer_is_reported_with_a_note_if_no_shard_runs(shell: Shell) -> None:
    note = "no shard is running: start a cluster with `shardclock up`\n"
    assert shell("schedule", "--in", "15m").err == note

    asyncio.run(add_holder(shell.dsn, 1))
    assert shell("schedule", "--in", "15m").err == ""


def test_a_payload_is_read_from_standard_input(shell: Shell) -> None:
    for stdin in ("-", "@-"):
        done = shell("schedule", "--in", "1h", "--payload", stdin, "--json", stdin=b'{"a": "\xc3\xa9"}\n')
        assert shown(shell, done.json["timer_key"])["payload"] == {"a": "é"}


def test_a_payload_is_read_from_a_file_up_to_the_size_limit(shell: Shell, folder: Path) -> None:
    file = folder / "payload.json"
    file.write_text(json.dumps("x" * 65_534) + "\n")
    done = shell("schedule", "--in", "1h", "--payload", f"@{file}", "--json")
    assert shown(shell, done.json["timer_key"])["payload"] == "x" * 65_534

    file.write_text(json.dumps("x" * 65_535) + "\n")
    assert_refused(shell("schedule", "--in", "1h", "--payload", f"@{file}"), "--payload", "65,536 bytes")


def test_a_cron_rule_is_accepted_by_both_options(shell: Shell) -> None:
    for option in ("--every", "--cron"):
        done = shell("schedule", option, "0 8 * * mon", "--zone", "Europe/Berlin", "--missed", "skip", "--json")
        timer = shown(shell, done.json["timer_key"])
        assert (timer["schedule"], timer["zone"], timer["missed"]) == ("0 8 * * mon", "Europe/Berlin", "skip")
        assert timer["due_date"] == done.json["due_date"]


@pytest.mark.parametrize("at", [["2031-03-30T02:30", "--zone", "Europe/Berlin"], ["2031-03-30T02:30[Europe/Berlin]"]])
def test_a_local_time_that_the_clock_skips_moves_forward_with_a_note(shell: Shell, at: list[str]) -> None:
    done = shell("schedule", "--at", *at, "--json")

    assert shown(shell, done.json["timer_key"])["due_date"] == "2031-03-30T01:30:00Z"
    assert "the clock of Europe/Berlin skips 2031-03-30T02:30:00; the timer is due later" in done.err
    assert "skips" not in shell("schedule", "--at", "2031-03-30T03:30", "--zone", "Europe/Berlin").err


def test_an_invalid_timer_is_refused_with_the_option_and_not_stored(shell: Shell) -> None:
    cases: list[tuple[list[str], list[str]]] = [
        (["--at", "infinity"], ["--at 'infinity'", "not an ISO 8601 date-time", "years 0001 to 9999"]),
        (["--in", "15 minutes"], ["--in '15 minutes'", "not a length of time", "15m", "PT15M"]),
        (["--every", "R-2/PT1S"], ["--every 'R-2/PT1S'", "-2", "R0 to R"]),
        (["--cron", "0 25 * * *"], ["--cron", "'25'", "0 to 23"]),
        (["--cron", "CRON_TZ=Asia/Tokyo 0 8 * * *"], ["leave CRON_TZ=Asia/Tokyo out, and give 'Asia/Tokyo' as --zone"]),
        (["--cron", "0 8 * * *", "--every", "R/PT1H"], ["--every and --cron"]),
        (["--cron", "0 8 * * *", "--zone", "Mars/Olympus"], ["--zone 'Mars/Olympus'", "IANA"]),
        (["--cron", "0 8 * * *", "--missed", "never"], ["--missed 'never'", "one of fire_once, fire_all, skip"]),
        (["--in", "PT1H", "--missed", "skip"], ["--missed 'skip'", "needs a schedule"]),
        (["--in", "PT1H", "--name", "\udcff"], ["'\\udcff'", "UTF-8"]),
        (["--in", "PT1S", "--payload", "{"], ["--payload '{'", "not JSON"]),
        (["--in", "PT1S", "--payload", "@no-such.json"], ["--payload '@no-such.json'", "No such file"]),
        (["--in", "PT1S", "--payload", "@tests"], ["--payload '@tests'", "directory"]),
        (["--in", "PT1S", "--payload", "-"], ["--payload '-'", "standard input is empty"]),
        (["--in", "PT1S", "--name", ""], ["--name ''", "1 to 200 characters"]),
        ([], ["exactly one of --at, --in and --every (or --cron)", "not 0"]),
        (["--in", "PT1S", "--at", "2030-01-31T08:00:00Z"], ["exactly one of", "not 2"]),
        (["--file", "x.ndjson", "--in", "PT1S"], ["--file"]),
        (["--refused-to", "x.ndjson", "--in", "PT1S"], ["--refused-to", "--file"]),
        (["--start-line", "3", "--in", "PT1S"], ["--start-line", "--file"]),
        (["PT1S"], ["PT1S"]),
    ]
    for options, words in cases:
        assert_refused(shell("schedule", *options), *words)
    assert_refused(shell("schedule", "--in", "P9999Y11M30D"), "years 1 to 9999")
    assert count(shell) == 0


# --on-conflict


def test_a_repeated_command_makes_no_second_timer_and_reports_the_existing_timer(shell: Shell) -> None:
    again = ["schedule", "--in", "PT1H", "--name", "invoice", "--on-conflict", "ignore", "--json"]
    first, second = shell(*again).json, shell(*again).json

    assert (first["outcome"], second["outcome"]) == ("created", "unchanged")
    assert second == first | {"outcome": "unchanged"}
    assert count(shell) == 1
    assert shell(*again[:-1]).out.split()[-1] == "unchanged"


def test_the_conflict_policy_of_a_line_takes_precedence_over_the_policy_of_the_command(shell: Shell) -> None:
    lines = [
        b'{"delay": "PT1H", "name": "a", "on_conflict": "refuse"}',
        b'{"delay": "PT1H", "name": "b", "on_conflict": "ignore"}',
        b'{"delay": "PT1H", "name": "c"}',
        b'{"delay": "PT1H"}',
    ]
    shell("schedule", "--file", "-", stdin=b"\n".join(lines))

    done = shell("schedule", "--file", "-", "--on-conflict", "replace", "--json", stdin=b"\n".join(lines))

    said = done.json
    refused = said.pop("refused")
    assert said == {"scheduled": 2, "replaced": 1, "unchanged": 1}
    assert [(it["line"], "name" in it["why"]) for it in refused] == [(1, True), (4, True)]
    assert count(shell) == 4


# --file

NOTHING = {"replaced": 0, "unchanged": 0, "refused": []}
GOOD = b'{"delay": "PT1H", "name": "good-%d"}'
BAD = [
    (b'{"due_date": "infinity"}', "infinity"),
    (b'{"delay": "PT1S", "name": "a\\u0000b"}', "control character"),
    (b'{"delay": "1 hour"}', "1 hour"),
    (b'{"schedule": "R-2/PT1S"}', "R-2/PT1S"),
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


def test_every_valid_line_is_scheduled_and_every_invalid_one_is_reported(shell: Shell, folder: Path) -> None:
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
        # The command stores only the first part of a line that is too long; it refuses this part as well.
        assert line == bad[:131_073]


def test_refused_lines_are_printed_for_people(shell: Shell, folder: Path) -> None:
    file = folder / "timers.ndjson"
    file.write_bytes(b"\r\n".join([GOOD % 1, b'{"delay": "soon"}', GOOD % 2, b"{"] + [b"{"] * 30))

    done = shell("schedule", "--file", file)

    assert done.code == NOT_DONE
    told = done.err.splitlines()
    assert told[0].startswith("line 2: ")
    assert "'soon'" in told[0]
    assert told[1].startswith("line 4: ")
    assert "12 more" in told[-1]
    assert done.out.split() == ["scheduled", "replaced", "unchanged", "refused", "2", "0", "0", "32"]


def test_lines_are_read_from_standard_input(shell: Shell) -> None:
    done = shell("schedule", "--file", "-", "--json", stdin=b"\n".join(GOOD % i for i in range(1_500)))
    assert (done.code, done.json) == (DONE, {"scheduled": 1_500} | NOTHING)
    assert count(shell) == 1_500


def test_a_file_is_read_from_the_given_line_on(shell: Shell) -> None:
    lines = b"\n".join([b"{", GOOD % 1, b'{"delay": "soon"}', GOOD % 2])

    done = shell("schedule", "--file", "-", "--start-line", 2, "--json", stdin=lines)

    assert done.json["scheduled"] == 2
    assert [refused["line"] for refused in done.json["refused"]] == [3]


def test_ctrl_c_reports_the_finished_lines_and_where_to_continue(
    shell: Shell, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    send, calls = ScheduleBatch.send, 0

    async def interrupted(self: ScheduleBatch, *given: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == 2:
            raise KeyboardInterrupt
        return await send(self, *given)

    monkeypatch.setattr("shardclock_server.service.bulk_import.PART_LINES", 4)
    monkeypatch.setattr(ScheduleBatch, "send", interrupted)
    refused_to = folder / "refused.ndjson"
    lines = [b"{", *(b'{"delay": "PT1H", "name": "order-%d"}' % i for i in range(9))]

    done = shell("schedule", "--file", "-", "--refused-to", refused_to, "--json", stdin=b"\n".join(lines))

    assert (done.code, done.json["scheduled"], done.json["refused"][0]["line"]) == (130, 3, 1)
    assert "all lines before line 5 are done" in done.err
    assert "continue with --start-line 5" in done.err
    assert refused_to.read_bytes() == b"{\n"
    assert count(shell) == 3


def test_without_refused_lines_the_file_for_them_is_empty(shell: Shell, folder: Path) -> None:
    refused_to = folder / "refused.ndjson"
    refused_to.write_text("of an earlier run")

    assert shell("schedule", "--file", "-", "--refused-to", refused_to, stdin=GOOD % 1).code == DONE
    assert refused_to.read_text() == ""


def test_a_file_in_utf_16_is_refused_with_its_encoding(shell: Shell, folder: Path) -> None:
    file = folder / "timers.ndjson"
    for encoding in ("utf-16-le", "utf-16-be"):
        file.write_bytes(('\ufeff{"delay":"PT1H"}\n' * 2).encode(encoding))
        assert_refused(shell("schedule", "--file", file), "UTF-16", "encode it as UTF-8")
    assert count(shell) == 0


def test_an_unreadable_file_is_refused(shell: Shell, folder: Path) -> None:
    assert_refused(shell("schedule", "--file", folder / "none"), str(folder / "none"), "No such file")
    assert_refused(shell("schedule", "--file", folder), str(folder), "directory")


def test_an_unwritable_file_for_refused_lines_is_refused_before_any_timer_is_scheduled(
    shell: Shell, folder: Path
) -> None:
    place = folder / "none" / "refused.ndjson"

    done = shell("schedule", "--file", "-", "--refused-to", place, stdin=GOOD % 1)

    assert_refused(done, str(place), "No such file")
    assert count(shell) == 0
