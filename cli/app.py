"""The program `shardclock`: it runs a command, and an error ends it with one line."""

import gc
import os
import sys
from importlib.metadata import version
from typing import Annotated, NoReturn

import click
import typer

from shardclock_server.cli import streams
from shardclock_server.cli.commands import Commands, only_prints
from shardclock_server.cli.exits import exit_of
from shardclock_server.cli.output import ANSWER_LOST, say, tell
from shardclock_server.cluster.settings import unknown_settings
from shardclock_server.timers.refusal import Refusal, shortened

app = typer.Typer(
    name="shardclock",
    cls=Commands,
    help="A durable timer cluster: Postgres remembers each timer, Ray actors fire it, exactly once and on time.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def _print_version(wanted: bool) -> None:
    if wanted:
        say(f"shardclock {version('shardclock')}")
        raise typer.Exit


@app.callback()
def _options(
    _: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_print_version, help="Print the version, and exit.")
    ] = False,
) -> None:
    gc.enable()  # the command is loaded


def run() -> NoReturn:
    """Run the command that the arguments name, and exit with its code; an error ends it with one line on stderr."""
    streams.prepare()
    try:
        _check_words(sys.argv[1:])
        for sentence in unknown_settings(os.environ):
            tell(f"shardclock: {sentence}")
        code = app(standalone_mode=False)
        streams.flush_answer()
    except (click.exceptions.Abort, KeyboardInterrupt):
        code = 130
    except streams.AnswerLost as lost:
        streams.discard_answer()
        _tell_lost(lost, sys.argv[1:])
        code = ANSWER_LOST
    except Exception as error:
        ended = exit_of(error)
        if ended is None:
            raise
        code, message = ended
        for line in message.splitlines():
            tell(f"shardclock: {line}")
    sys.exit(code or 0)


def _tell_lost(lost: streams.AnswerLost, words: list[str]) -> None:
    is_page = "--help" in words or words == ["--version"]
    if lost.is_reader_gone and (is_page or only_prints(words)):
        return  # `| head` has read enough
    ran = "" if is_page else "; the command has run, and its answer is lost: look before you repeat it"
    tell(f"shardclock: {lost}{ran}")


def _check_words(words: list[str]) -> None:
    """Refuse arguments that are not valid text: Postgres could neither store nor find them."""
    for word in words:
        try:
            word.encode()
        except UnicodeEncodeError:
            raise Refusal(f"{shortened(word)} is not valid UTF-8; encode it as UTF-8") from None
