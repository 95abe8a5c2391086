"""The program `shardclock`: its commands, and how errors end it."""

import os
import sys
from importlib.metadata import version
from typing import Annotated, NoReturn

import click
import typer
from pydantic import ValidationError

from cli import (
    audit,
    consumers,
    database,
    dead_letters,
    deliveries,
    endpoints,
    explain,
    handover,
    hold,
    inspect,
    jobs,
    keys,
    processes,
    ramp,
    reschedule,
    run,
    scaling,
    schedule,
    status,
    targets,
    tasks,
    tenants,
    verbs,
)
from cli.options import in_options
from cli.output import BAD_INPUT, NOT_DONE, NOT_THERE, WRONG_SCHEMA, out, tell
from cli.recording import NotRecorded, record_verbs
from cluster.failed import ClusterFailed
from cluster.settings import InvalidSettings, unknown_settings
from embedded.server import EmbeddedPostgresError
from gateway.settings import CannotServe
from metrics.refusals import CannotListen
from service.bulk_change import BulkBroken
from service.bulk_import import ImportBroken
from sql.cluster.rights import LacksRights
from sql.migrate import TablesInUse, WrongSchema
from sql.session import NOT_ALLOWED, StatementRefused, StoreUnavailable
from timers.refusal import Refusal, shortened
from workers.app import AppRefused

app = typer.Typer(
    name="shardclock",
    help="A durable timer cluster: Postgres remembers each timer, Ray actors fire it, exactly once and on time.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def _print_version(wanted: bool) -> None:
    if wanted:
        out.print(f"shardclock {version('shardclock')}")
        raise typer.Exit


@app.callback()
def _options(
    _: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_print_version, help="Print the version, and exit.")
    ] = False,
) -> None:
    pass


for command in (
    run.up, run.gateway, run.demo, run.migrate, run.exporter, database.dsn, database.psql,
    scaling.scale, scaling.forecast, ramp.ramp, handover.switch, handover.leave,
    hold.hold, hold.release,
    schedule.schedule, inspect.preview, inspect.list_, inspect.show, explain.explain,
    verbs.cancel, reschedule.reschedule, verbs.pause, verbs.resume, verbs.run_now,
    processes.deploy, status.tail, status.status, targets.targets, audit.audit,
):  # fmt: skip
    # `ramp -1` is a wrong rate, `scale -1` a wrong number: neither is an unknown option. psql checks its own options.
    context = {"ignore_unknown_options": command in (ramp.ramp, scaling.scale, database.psql)}
    app.command(name=command.__name__.rstrip("_").replace("_", "-"), context_settings=context)(command)
app.add_typer(consumers.consumers, name="consumers")
app.add_typer(dead_letters.dead_letters, name="dead-letters")
app.add_typer(deliveries.deliveries, name="deliveries")
app.add_typer(endpoints.endpoints, name="endpoints")
app.add_typer(jobs.jobs, name="jobs")
app.add_typer(keys.keys, name="keys")
app.add_typer(processes.processes, name="processes")
app.add_typer(tasks.tasks, name="tasks")
app.add_typer(tenants.tenants, name="tenants")
record_verbs(app)

EXITS: dict[type[Exception], int] = {
    Refusal: BAD_INPUT,
    InvalidSettings: BAD_INPUT,
    StoreUnavailable: NOT_THERE,
    EmbeddedPostgresError: NOT_THERE,
    ImportBroken: NOT_THERE,
    BulkBroken: NOT_THERE,
    ClusterFailed: NOT_THERE,
    CannotListen: NOT_THERE,
    CannotServe: NOT_THERE,
    LacksRights: NOT_THERE,
    NotRecorded: NOT_THERE,
    AppRefused: BAD_INPUT,
    TablesInUse: NOT_DONE,
    WrongSchema: WRONG_SCHEMA,
    StatementRefused: NOT_DONE,
}


def main() -> NoReturn:
    """Run a command; an error ends it with one line and an exit code for the kind of error."""
    try:
        _check_words(sys.argv[1:])
        for sentence in unknown_settings(os.environ):
            tell(f"shardclock: {sentence}")
        code = app(standalone_mode=False)
    except tuple(EXITS) as error:
        for line in _message_of(error).splitlines():
            tell(f"shardclock: {line}")
        code = NOT_THERE if _is_refused_entry(error) else next(EXITS[kind] for kind in EXITS if isinstance(error, kind))
    except (click.exceptions.Abort, KeyboardInterrupt):
        code = 130
    except BrokenPipeError:
        # The reader of our output has ended, as with `| head`; writing the rest of the buffer must not fail at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = NOT_DONE
    except Exception as error:
        # Typer bundles its own copy of click, so its errors are recognized by their method, not by their class.
        if not hasattr(error, "format_message"):
            raise
        tell(f"shardclock: {error.format_message()}{_given(error)} (see `shardclock --help`)")
        code = BAD_INPUT
    sys.exit(code or 0)


def _check_words(words: list[str]) -> None:
    """Refuse arguments that are not valid text: Postgres could neither store nor find them."""
    for word in words:
        try:
            word.encode()
        except UnicodeEncodeError:
            raise Refusal(f"{shortened(word)} is not valid UTF-8; encode it as UTF-8") from None


def _given(error: BaseException) -> str:
    """Return the value that typer refused, because typer's message leaves it out."""
    cause = error.__cause__ or error.__context__
    return f", not {shortened(cause.errors()[0]['input'])}" if isinstance(cause, ValidationError) else ""


def _is_refused_entry(error: Exception) -> bool:
    """Say whether Postgres, or a pooler before it, refused to connect: wrong user, password or database."""
    return isinstance(error, StatementRefused) and error.sqlstate.startswith(("08", "28", "3D"))


def _message_of(error: Exception) -> str:
    if _is_refused_entry(error):
        return f"{error}; is SHARDCLOCK_DSN right?"
    if isinstance(error, StatementRefused) and error.sqlstate == NOT_ALLOWED:
        return f"{error}: which role may do this is in docs/operate/security.md"
    if isinstance(error, StoreUnavailable):
        return f"Postgres does not answer: {error}; is it up, and is SHARDCLOCK_DSN right?"
    return in_options(str(error)) if isinstance(error, Refusal) else str(error)
