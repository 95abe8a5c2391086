"""Prove that what a command prints reaches a file whole, and a terminal legibly."""

from __future__ import annotations

import io
from unittest import mock

import pytest
from rich.console import Console
from rich.text import Text

from cli import output
from service.words import counted
from tests.support.cli_asserts import DONE, DOWN
from tests.support.program import Shell

LONG = "x" * 180


def test_a_table_in_a_file_has_a_line_for_each_row_however_wide(shell: Shell) -> None:
    for number in range(3):
        shell("schedule", "--at", "2031-01-31T08:00:00Z", "--name", f"{LONG}-{number}", "--tenant", f"{LONG}")

    lines = shell("list", COLUMNS="80").out.splitlines()

    assert len(lines) == 4
    assert lines[0].split() == ["timer_key", "state", "due", "ended", "tenant", "target", "name", "schedule"]
    assert [line.split()[-1] for line in lines[1:]] == [f"{LONG}-{number}" for number in range(3)]
    assert all(line == line.rstrip() and "…" not in line for line in lines)
    assert len({line.index(LONG) for line in lines[1:]}) == 1, "columns stay in line"


def test_a_field_is_shown_whole_in_a_file(shell: Shell) -> None:
    shell("schedule", "--in", "1h", "--name", "n", "--payload", f'"{"y" * 5_000}"')

    assert "y" * 5_000 in shell("show", "--name", "n").out


def test_a_table_on_a_terminal_fits_its_width() -> None:
    screen = io.StringIO()

    with mock.patch.object(output, "out", Console(file=screen, force_terminal=True, width=60)):
        output.print_table("", ["name", "value"], [("n", LONG)])

    shown = Text.from_ansi(screen.getvalue()).plain
    assert max(map(len, shown.splitlines())) <= 60


def test_the_version_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    done = Shell(DOWN, capsys)("--version")

    assert (done.code, done.err) == (DONE, "")
    assert done.out.split()[0] == "shardclock"
    assert done.out.split()[1][0].isdigit()


@pytest.mark.parametrize(
    ("number", "words"), [(0, "0 timers"), (1, "1 timer"), (2, "2 timers"), (1234, "1,234 timers")]
)
def test_one_is_no_plural(number: int, words: str) -> None:
    assert counted(number, "timer") == words
