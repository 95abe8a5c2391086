"""The program `shardclock`: run a command; an error ends it with one line."""

import gc
import json
import os
import sys
from importlib.metadata import version
from typing import Annotated, NoReturn

import click
import typer

from shardclock_server.cli import streams
from shardclock_server.cli.commands import Commands, only_prints
from shardclock_server.cli.exits import CommandFailure, failure_of
from shardclock_server.cli.output import ANSWER_LOST, print_line, print_note
from shardclock_server.cluster.settings import unknown_settings
from shardclock_server.timers.refusal import Refusal, shortened

app = typer.Typer(
    name="shardclock",
    cls=Commands,
    help="A durable timer cluster: Postgres stores each timer, and Ray actors fire it exactly once and on time.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def _print_version(wanted: bool) -> None:
    if wanted:
        print_line(f"shardclock {version('shardclock')}")
        raise typer.Exit


@app.callback()
def _options(
    _: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_print_version, help="Print the version, and exit.")
    ] = False,
) -> None:
    gc.enable()  # the command is imported by now


def run() -> NoReturn:
    """Run the command of the arguments, and exit with its code; an error ends it with one line on stderr."""
    streams.prepare()
    try:
        _check_arguments(sys.argv[1:])
        for sentence in unknown_settings(os.environ):
            print_note(f"shardclock: {sentence}")
        code = app(standalone_mode=False)
        streams.flush_answer()
    except (click.exceptions.Abort, KeyboardInterrupt):
        code = 130
    except streams.AnswerLost as lost:
        streams.discard_answer()
        _print_lost(lost, sys.argv[1:])
        code = ANSWER_LOST
    except Exception as error:
        failure = failure_of(error)
        if failure is None:
            raise
        _print_failure(failure, as_json="--json" in sys.argv[1:])
        code = failure.code.exit_code
    sys.exit(code or 0)


def _print_failure(failure: CommandFailure, *, as_json: bool) -> None:
    """Print the end of a command by an error to stderr: as lines for people, or as one JSON object for programs."""
    if as_json:
        print_note(
            json.dumps({"code": failure.code.name, "detail": failure.message, **failure.members}, ensure_ascii=False)
        )
        return
    for line in failure.message.splitlines():
        print_note(f"shardclock: {line}")


def _print_lost(lost: streams.AnswerLost, words: list[str]) -> None:
    is_page = "--help" in words or words == ["--version"]
    if lost.is_reader_gone and (is_page or only_prints(words)):
        return  # the reader, such as `head`, has closed the pipe
    ran = "" if is_page else "; the command has run, and its answer is lost: look before you repeat it"
    print_note(f"shardclock: {lost}{ran}")


def _check_arguments(words: list[str]) -> None:
    """Refuse arguments that are not valid text: Postgres can't store or compare them."""
    for word in words:
        try:
            word.encode()
        except UnicodeEncodeError:
            raise Refusal(f"{shortened(word)} is not valid UTF-8; encode it as UTF-8") from None
