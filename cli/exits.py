"""Map an error to its code, its exit code, and one line of text."""

import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from shardclock.api.codes import CONFLICT, NOT_ALLOWED, REFUSED, UNAVAILABLE, WRONG_SCHEMA, RefusalCode
from shardclock_server.cli.field_names import in_options
from shardclock_server.cluster.node import DSN, DSN_FILE
from shardclock_server.cluster.settings import InvalidSettings, load_settings
from shardclock_server.sql.session import NOT_ALLOWED as NO_RIGHT
from shardclock_server.sql.session import StatementRefused, StoreUnavailable
from shardclock_server.timers.refusal import Refusal, shortened

ROLE_HINT = (
    "use a role that has this right, or grant a group role: shardclock_reader reads, shardclock_scheduler changes"
    " timers, shardclock_shard runs clusters, shardclock_owner migrates"
)


@dataclass(frozen=True, slots=True)
class CommandFailure:
    """An error that ends a command: its code, a message of one or more lines, and further fields for programs."""

    code: RefusalCode
    message: str
    members: Mapping[str, str | int | None]


# The classes are given by name, because the import of all these modules would slow each command down.
CODES_BY_CLASS: Mapping[str, RefusalCode] = {
    "shardclock_server.cluster.settings.InvalidSettings": REFUSED,
    "shardclock_server.workers.app.AppRefused": REFUSED,
    "shardclock_server.sql.session.StoreUnavailable": UNAVAILABLE,
    "shardclock_server.embedded.postmaster.EmbeddedPostgresError": UNAVAILABLE,
    "shardclock_server.service.lines.ImportBroken": UNAVAILABLE,
    "shardclock_server.service.bulk_run.BulkBroken": UNAVAILABLE,
    "shardclock_server.cluster.failed.ClusterFailed": UNAVAILABLE,
    "shardclock_server.cluster.scratch.NoPlace": UNAVAILABLE,
    "shardclock_server.metrics.refusals.CannotListen": UNAVAILABLE,
    "shardclock_server.gateway.settings.CannotServe": UNAVAILABLE,
    "shardclock_server.gateway.settings.UnfitSchema": WRONG_SCHEMA,
    "shardclock_server.sql.cluster.rights.LacksRights": UNAVAILABLE,
    "shardclock_server.cli.backup.FileNotWritten": CONFLICT,
    "shardclock_server.cli.postgres_programs.ProgramFailed": CONFLICT,
    "shardclock_server.cli.recording.NotRecorded": UNAVAILABLE,
    "shardclock_server.sql.migrate.TablesInUse": CONFLICT,
    "shardclock_server.sql.migrate.WrongEncoding": REFUSED,
    "shardclock_server.sql.migrate.WrongSchema": WRONG_SCHEMA,
}


def failure_of(error: Exception) -> CommandFailure | None:
    """Return the code and the message of an error; None if the error is a bug."""
    code = code_of(error)
    if code is None:
        return None
    members = error.members if isinstance(error, Refusal) else {}
    return CommandFailure(code, _message_of(error), members)


def code_of(error: Exception) -> RefusalCode | None:
    """Return the code of an error; None if the error is a bug."""
    if isinstance(error, Refusal):
        return error.code
    if isinstance(error, StatementRefused):
        if _is_refused_entry(error):
            return UNAVAILABLE
        return error.code or (NOT_ALLOWED if error.sqlstate == NO_RIGHT else CONFLICT)
    for kind in type(error).__mro__:
        code = CODES_BY_CLASS.get(f"{kind.__module__}.{kind.__qualname__}")
        if code is not None:
            return code
    # Typer contains a private copy of click; the error classes of this copy have no public name. An error with a method
    # `format_message` has one of these classes.
    return REFUSED if hasattr(error, "format_message") else None


def _is_refused_entry(error: object) -> bool:
    """Return whether Postgres or a pooler refused the connection because of the user, password or database."""
    return isinstance(error, StatementRefused) and error.sqlstate.startswith(("08", "28", "3D"))


def _message_of(error: Any) -> str:
    if hasattr(error, "format_message"):
        return f"{_refused_number(error) or error.format_message()} (see `{_command_of(error)} --help`)"
    if _is_refused_entry(error):
        return f"{error}; is {named} right?" if (named := _dsn_variable()) else str(error)
    if isinstance(error, StatementRefused) and error.sqlstate == NO_RIGHT:
        return f"{error}; {ROLE_HINT}"
    if isinstance(error, StoreUnavailable):
        return _no_answer(error)
    if type(error).__name__ == "EmbeddedPostgresError":
        return f"{error}; set SHARDCLOCK_DATA_DIR to another directory, or SHARDCLOCK_DSN to your own Postgres"
    is_for_users = isinstance(error, Refusal) or (isinstance(error, StatementRefused) and error.code is not None)
    return in_options(str(error)) if is_for_users else str(error)


def _command_of(error: Any) -> str:
    """Return the command that got wrong arguments, such as `shardclock keys add`."""
    names, context = list[str](), getattr(error, "ctx", None)
    while context is not None and context.parent is not None:
        names.insert(0, context.info_name)
        context = context.parent
    return " ".join(["shardclock", *names])


def _no_answer(error: StoreUnavailable) -> str:
    if (named := _dsn_variable()) is None:
        return f"Postgres does not answer: {error}; the log is below SHARDCLOCK_DATA_DIR"
    at = ""
    with suppress(InvalidSettings):  # The file that contains the DSN may have been deleted.
        at = f" at {dsn.place}" if (dsn := load_settings().find_dsn()) else ""
    return f"Postgres does not answer{at}: {error}; check that Postgres runs and that {named} is right"


def _dsn_variable() -> str | None:
    """Return the environment variable that names the database; None if the embedded database is used."""
    given = {name.upper() for name, value in os.environ.items() if value}
    return next((name for name in (DSN, DSN_FILE) if name in given), None)


def _refused_number(error: Any) -> str | None:
    """Return a message for an option or argument that is not a number or is out of range.

    None: another error. Typer would print pydantic's message, which is for programmers and does not show the value.
    """
    cause = error.__cause__ or error.__context__
    if not isinstance(cause, ValidationError):
        return None
    param = error.param
    name = max(param.opts, key=len) if param.opts[0].startswith("-") else (param.metavar or param.name).strip("[]")
    kind = "whole number" if param.type_descriptor.annotation is int else "number"
    least, most = param.min, param.max
    bounds = "" if least is None else f" of at least {least}" if most is None else f" from {least} to {most}"
    return f"{name} {shortened(cause.errors()[0]['input'])} is refused: choose a {kind}{bounds}"
