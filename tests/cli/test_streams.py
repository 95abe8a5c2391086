"""A command that can't write its answer reports this failure, and does not report its completed work as failed."""

from __future__ import annotations

import asyncio
import os
import subprocess
from dataclasses import replace

import pytest

from tests.support.cli_asserts import ANSWER_LOST, BAD_INPUT, DONE, DOWN, count
from tests.support.factories import BOUND_S, add_holder
from tests.support.program import PROGRAM, Shell, run

SCHEDULE = ["schedule", "--in", "9h"]
LOST = "the command has run, but its answer is lost: check the result before you repeat it"


def _run(shell: Shell, words: list[str], redirection: str) -> tuple[int, str]:
    """Run a command with a redirection of bash; return its exit code and its stderr."""
    done = subprocess.run(
        ["bash", "-c", f'"$@" {redirection}', "bash", *PROGRAM, *words],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        env=os.environ | {"SHARDCLOCK_DSN": shell.dsn},
        timeout=2 * BOUND_S,
        check=False,
    )
    return done.returncode, done.stderr.decode()


@pytest.mark.parametrize(
    ("form", "redirection", "why"),
    [(["--json"], "> /dev/full", "No space left on device"), ([], "<&- >&-", "it is closed")],
)
def test_if_the_answer_can_t_be_written_the_timer_is_scheduled_and_one_sentence_reports_this(
    shell: Shell, form: list[str], redirection: str, why: str
) -> None:
    asyncio.run(add_holder(shell.dsn, 1))  # Without a shard, the command would add a note.
    words = [*SCHEDULE, *form]
    ended = _run(shell, words, redirection)
    assert ended == (ANSWER_LOST, f"shardclock: standard output can't be written: {why}; {LOST}\n")
    asyncio.run(add_holder(shell.dsn, 2))  # The first may be silent by now.
    assert _run_without_reader(shell, words) == (
        ANSWER_LOST,
        f"shardclock: standard output can't be written: Broken pipe; {LOST}\n",
    )
    assert count(shell) == 2


def test_a_closed_standard_input_is_refused_with_one_sentence(shell: Shell) -> None:
    code, said = _run(shell, [*SCHEDULE, "--payload", "-"], "<&-")
    assert (code, said) == (BAD_INPUT, "shardclock: --payload '-' can't be read: Bad file descriptor\n")
    code, said = _run(shell, ["schedule", "--file", "-"], "<&-")
    assert (code, said.partition(";")[0]) == (BAD_INPUT, "shardclock: line 1 can't be read: Bad file descriptor")
    assert count(shell) == 0


@pytest.mark.parametrize("words", [["list"], ["migrate", "--sql"]])
def test_each_kind_of_lost_answer_has_the_same_exit_code(shell: Shell, words: list[str]) -> None:
    code, said = _run(shell, words, "> /dev/full")
    assert code == ANSWER_LOST
    assert said.endswith(f"{LOST}\n")
    assert "Traceback" not in said


@pytest.mark.parametrize("words", [["--version"], ["schedule", "--help"]])
def test_a_lost_help_page_does_not_claim_that_a_command_has_run(shell: Shell, words: list[str]) -> None:
    lost = "shardclock: standard output can't be written: No space left on device\n"
    assert _run(shell, words, "> /dev/full") == (ANSWER_LOST, lost)
    assert _run_without_reader(shell, words) == (ANSWER_LOST, "")


def test_a_closed_pipe_of_a_command_that_only_prints_is_not_an_error_message(shell: Shell) -> None:
    code, said = _run_without_reader(shell, ["status"])
    assert code == ANSWER_LOST
    assert "standard output" not in said


def _run_without_reader(shell: Shell, words: list[str]) -> tuple[int, str]:
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        [*PROGRAM, *words],
        stdout=writer,
        stderr=subprocess.PIPE,
        env=os.environ | {"SHARDCLOCK_DSN": shell.dsn},
        timeout=2 * BOUND_S,
        check=False,
    )
    os.close(writer)
    return done.returncode, done.stderr.decode()


@pytest.mark.parametrize("redirection", ["2>&-", "2> /dev/full"])
def test_a_lost_refusal_keeps_its_exit_code(shell: Shell, redirection: str) -> None:
    assert _run(replace(shell, dsn=DOWN), ["schedule", "--in", "nine"], redirection) == (BAD_INPUT, "")


def test_a_command_works_without_standard_error(shell: Shell) -> None:
    assert _run(shell, SCHEDULE, "2>&-") == (DONE, "")
    assert count(shell) == 1


@pytest.mark.parametrize("bad", ["bad", "b" * 100_000], ids=["short", "longer than the buffer"])
def test_a_failed_write_of_refused_lines_keeps_the_report_and_the_timers(shell: Shell, bad: str) -> None:
    done = run(
        *("schedule", "--file", "-", "--refused-to", "/dev/full"),
        environment={"SHARDCLOCK_DSN": shell.dsn},
        stdin=f'{{"delay":"PT9H"}}\n{bad}\n'.encode(),
    )
    assert done.code == ANSWER_LOST
    assert done.err.startswith("shardclock: /dev/full can't be written: No space left on device; the report counts")
    assert "Traceback" not in done.err
    assert "scheduled" in done.out
    assert count(shell) == 1
