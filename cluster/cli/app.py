"""The program `shardclock`, and how its errors end it."""

import os
import sys
from typing import NoReturn

import click
import typer
from pydantic import ValidationError

from cluster.cli import explain, look, moving, ramp, release, reschedule, run, scaling, schedule, verbs, watch
from cluster.cli.many import BulkBroken
from cluster.cli.output import BAD_INPUT, NOT_DONE, NOT_THERE, WRONG_SCHEMA, tell
from cluster.embedded import EmbeddedPostgresError
from cluster.importing import ImportBroken
from cluster.running import ClusterFailed
from cluster.settings import InvalidSettings
from metrics.server import CannotListen
from sql.migrate import WrongSchema
from sql.session import StatementRefused, StoreUnavailable
from timers.refusal import InvalidTimer, shortened

app = typer.Typer(
    name="shardclock",
    help="A durable timer cluster: Postgres remembers each timer, Ray actors fire it, exactly once and on time.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
for command in (
    run.up, run.demo, run.migrate, run.exporter, scaling.scale, scaling.forecast, ramp.ramp,
    moving.switch, moving.leave, release.release,
    schedule.schedule, look.preview, look.list_, look.show, explain.explain,
    verbs.cancel, reschedule.reschedule, verbs.pause, verbs.resume, verbs.run_now,
    watch.tail, watch.status,
):  # fmt: skip
    # `ramp -1` is a wrong rate, `scale -1` a wrong number: neither is an unknown option.
    context = {"ignore_unknown_options": command in (ramp.ramp, scaling.scale)}
    app.command(name=command.__name__.rstrip("_").replace("_", "-"), context_settings=context)(command)

EXITS: dict[type[Exception], int] = {
    InvalidTimer: BAD_INPUT,
    InvalidSettings: BAD_INPUT,
    StoreUnavailable: NOT_THERE,
    EmbeddedPostgresError: NOT_THERE,
    ImportBroken: NOT_THERE,
    BulkBroken: NOT_THERE,
    ClusterFailed: NOT_THERE,
    CannotListen: NOT_THERE,
    WrongSchema: WRONG_SCHEMA,
    StatementRefused: NOT_DONE,
}


def main() -> NoReturn:
    """Run a command; what goes wrong ends it with one line and a code that says what kind it was."""
    try:
        _check_words(sys.argv[1:])
        code = app(standalone_mode=False)
    except tuple(EXITS) as error:
        tell(f"shardclock: {_what(error)}")
        code = NOT_THERE if _is_refused_entry(error) else next(EXITS[kind] for kind in EXITS if isinstance(error, kind))
    except (click.exceptions.Abort, KeyboardInterrupt):
        code = 130
    except BrokenPipeError:
        # Our reader has gone, as with `| head`; what is still buffered must not fail at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = NOT_DONE
    except Exception as error:
        # Typer carries a click of its own, so its errors are known by their shape.
        if not hasattr(error, "format_message"):
            raise
        tell(f"shardclock: {error.format_message()}{_given(error)} (see `shardclock --help`)")
        code = BAD_INPUT
    sys.exit(code or 0)


def _check_words(words: list[str]) -> None:
    """Refuse bytes that are no text: Postgres could neither store nor find them."""
    for word in words:
        try:
            word.encode()
        except UnicodeEncodeError:
            raise InvalidTimer(f"{shortened(word)} is not valid UTF-8; encode it as UTF-8") from None


def _given(error: BaseException) -> str:
    """Name the value that typer refused, which its message leaves out."""
    cause = error.__cause__ or error.__context__
    return f", not {shortened(cause.errors()[0]['input'])}" if isinstance(cause, ValidationError) else ""


def _is_refused_entry(error: Exception) -> bool:
    """Say whether Postgres didn't let us in: no such user, password or database."""
    return isinstance(error, StatementRefused) and error.sqlstate.startswith(("28", "3D"))


def _what(error: Exception) -> str:
    if _is_refused_entry(error):
        return f"{error}; is SHARDCLOCK_DSN right?"
    if isinstance(error, StoreUnavailable):
        return f"Postgres does not answer: {error}; is it up, and is SHARDCLOCK_DSN right?"
    return str(error)
