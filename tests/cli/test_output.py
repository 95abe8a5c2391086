"""Output is complete in a file, and legible on a terminal."""

from __future__ import annotations

import io
from codecs import BOM_UTF8
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from rich.console import Console
from rich.text import Text

from shardclock_server.cli import output
from shardclock_server.service.wording import counted
from tests.support.cli_asserts import DONE, DOWN, assert_refused
from tests.support.program import Shell

LONG = "x" * 180


class _Screen(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_table_in_a_file_has_one_full_line_per_row(shell: Shell) -> None:
    for number in range(3):
        shell("schedule", "--at", "2031-01-31T08:00:00Z", "--name", f"{LONG}-{number}", "--tenant", f"{LONG}")

    lines = shell("list", COLUMNS="80").out.splitlines()

    assert len(lines) == 4
    assert lines[0].split() == ["timer_key", "state", "due", "ended", "tenant", "target", "name", "schedule"]
    assert [line.split()[-1] for line in lines[1:]] == [f"{LONG}-{number}" for number in range(3)]
    assert all(line == line.rstrip() and "…" not in line for line in lines)
    assert len({line.index(LONG) for line in lines[1:]}) == 1, "columns stay in line"


def test_a_table_in_a_pipe_is_complete_even_if_colours_are_forced(shell: Shell) -> None:
    shell("schedule", "--in", "1h", "--name", LONG)
    for variable in ("FORCE_COLOR", "TTY_COMPATIBLE", "CLICOLOR_FORCE"):
        environment: dict[str, Any] = {variable: "1"}
        (_, row) = shell("list", COLUMNS="40", **environment).out.splitlines()
        assert row.split()[-1] == LONG


def test_a_name_is_printed_as_it_was_given(shell: Shell) -> None:
    for name in ("deploy:fire:now", "[bold]x[/bold]", "[link=http://127.0.0.1/]x[/link]", ":email:[/]"):
        shell("schedule", "--in", "1h", "--name", name)
        assert name in shell("list").out
        assert name in shell("cancel", "--name", f"{name}?").err
    assert name in shell("explain", "--name", name).out
    assert name in shell("schedule", "--in", "1h", "--target", f"webhook:{name}").err
    assert name in shell("schedule", "--in", name).err


def test_control_characters_are_escaped_in_rows_and_on_the_terminal(shell: Shell) -> None:
    text = "\x1b[2J\x9b1A\a\rup\nnext"

    assert output.printable(text) == "\\x1b[2J\\x9b1A\\x07\\rup\nnext"
    assert output.printable(text, kept="") == "\\x1b[2J\\x9b1A\\x07\\rup\\nnext"
    output.print_table("", ["reason"], [(text,)])
    assert shell.capsys.readouterr().out.splitlines() == ["reason", output.printable(text, kept="")]


@pytest.mark.parametrize("source", ["file", "stdin"])
def test_a_byte_order_mark_at_the_beginning_is_skipped(shell: Shell, tmp_path: Path, source: str) -> None:
    def given(text: str) -> tuple[str, bytes]:
        content = BOM_UTF8 + text.encode()
        (tmp_path / "given").write_bytes(content)
        return (f"@{tmp_path / 'given'}", b"") if source == "file" else ("-", content)

    lines, content = given('{"delay":"PT1H","name":"a"}\r\n{"delay":"PT1H","name":"b"}\r\n')
    assert shell("schedule", "--file", lines.removeprefix("@"), stdin=content).code == DONE
    payload, content = given('{"order":1}\r\n')
    assert shell("schedule", "--in", "1h", "--payload", payload, "--name", "c", stdin=content).code == DONE
    jobs, content = given('{"name":"nightly","every":"PT1H","target":"log"}')
    assert "is not JSON" not in shell("jobs", "apply", jobs.removeprefix("@"), "--dry-run", stdin=content).err
    assert '{"order": 1}' in shell("show", "--name", "c").out


def test_an_empty_standard_input_or_file_is_refused_as_empty(shell: Shell, tmp_path: Path) -> None:
    file = tmp_path / "empty"
    file.write_bytes(b"\n")

    for given, what in (("-", "standard input"), (f"@{file}", "the file")):
        refused = shell("schedule", "--in", "1h", "--payload", given)
        assert_refused(refused, "--payload", f"is refused: {what} is empty")


def test_a_table_on_a_terminal_fits_its_width() -> None:
    screen = _Screen()

    with mock.patch.object(output, "out", Console(file=screen, width=60)):
        output.print_table("", ["name", "value"], [("n", LONG)])

    shown = Text.from_ansi(screen.getvalue()).plain
    assert max(map(len, shown.splitlines())) <= 60


def test_the_version_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    done = Shell(DOWN, capsys)("--version")

    assert (done.code, done.err) == (DONE, "")
    assert done.out.split()[0] == "shardclock"
    assert done.out.split()[1][0].isdigit()


@pytest.mark.parametrize(
    ("number", "words"), [(0, "0 timers"), (1, "1 timer"), (2, "2 timers"), (1234, "1,234 timers")]
)
def test_a_number_has_the_right_plural(number: int, words: str) -> None:
    assert counted(number, "timer") == words
