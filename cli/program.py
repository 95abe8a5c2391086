"""Run a command, and print one line for an error that ends the command.

The modules of commands are imported on demand, so that `--version` and `--help` answer quickly.
"""

import json
import os
import sys
from typing import TYPE_CHECKING, NoReturn

from shardclock_server.cli import INTERRUPTED, streams
from shardclock_server.cli.version import print_version

if TYPE_CHECKING:
    from shardclock_server.cli.exits import CommandFailure


def run() -> NoReturn:
    """Run the command that the arguments name, and exit with its code; print an error as one line to stderr."""
    streams.prepare()
    words = sys.argv[1:]
    try:
        code = _answer(words)
        streams.flush_answer()
    except KeyboardInterrupt:
        code = INTERRUPTED
    except streams.AnswerLost as lost:
        streams.discard_answer()
        _print_lost(lost, words)
        code = streams.ANSWER_LOST
    except Exception as error:
        if isinstance(error.__cause__, KeyboardInterrupt):  # Python 3.11: Ctrl-C came during a class statement
            sys.exit(INTERRUPTED)
        from shardclock_server.cli.exits import failure_of

        failure = failure_of(error)
        if failure is None:
            raise
        _print_failure(failure, as_json="--json" in words)
        code = failure.code.exit_code
    sys.exit(code)


def _answer(words: list[str]) -> int:
    """Run the command, and return its exit code; without a command, print the help."""
    if words == ["--version"]:
        print_version()
        return 0
    from shardclock_server.cli.app import app

    _check_arguments(words)
    if not _is_page(words):
        _print_unknown_settings()
    import typer

    try:
        code: int | None = app(words or ["--help"], standalone_mode=False)
    except typer.Abort:
        return INTERRUPTED
    if words:
        return code or 0
    from shardclock.api.codes import BAD_INPUT

    return BAD_INPUT


def _print_unknown_settings() -> None:
    from shardclock_server.cli.output import print_note
    from shardclock_server.cluster.settings import unknown_settings

    for sentence in unknown_settings(os.environ):
        print_note(f"shardclock: {sentence}")


def _print_failure(failure: "CommandFailure", *, as_json: bool) -> None:
    """Print the error that ended a command to stderr, as lines for people or as one JSON object for programs."""
    from shardclock_server.cli.output import print_note

    if as_json:
        print_note(
            json.dumps({"code": failure.code.name, "detail": failure.message, **failure.members}, ensure_ascii=False)
        )
        return
    for line in failure.message.splitlines():
        print_note(f"shardclock: {line}")


def _print_lost(lost: streams.AnswerLost, words: list[str]) -> None:
    from shardclock_server.cli.commands import only_prints
    from shardclock_server.cli.output import print_note

    is_page = _is_page(words)
    if lost.is_reader_gone and (is_page or only_prints(words)):
        return  # The reader of the output, such as `head`, has closed the pipe.
    ran = "" if is_page else "; the command has run, but its answer is lost: check the result before you repeat it"
    print_note(f"shardclock: {lost}{ran}")


def _is_page(words: list[str]) -> bool:
    return not words or "--help" in words or words == ["--version"]


def _check_arguments(words: list[str]) -> None:
    """Refuse arguments that are not valid text, because Postgres can't store such bytes."""
    for word in words:
        try:
            word.encode()
        except UnicodeEncodeError:
            from shardclock_server.timers.refusal import Refusal, shortened

            raise Refusal(f"{shortened(word)} is not valid UTF-8; encode it as UTF-8") from None
