"""How an error ends a command: in one line, with an exit code for its kind."""

import os
from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from shardclock_server.cli.field_names import in_options
from shardclock_server.cli.output import BAD_INPUT, NOT_DONE, NOT_THERE, WRONG_SCHEMA
from shardclock_server.cluster.node import DSN, DSN_FILE
from shardclock_server.sql.session import NOT_ALLOWED, StatementRefused, StoreUnavailable
from shardclock_server.timers.refusal import Refusal, shortened

# By their names: an error that was raised has loaded its module, and no command loads those of all others.
EXITS: Mapping[str, int] = {
    "shardclock_server.timers.refusal.Refusal": BAD_INPUT,
    "shardclock_server.cluster.settings.InvalidSettings": BAD_INPUT,
    "shardclock_server.workers.app.AppRefused": BAD_INPUT,
    "shardclock_server.sql.session.StoreUnavailable": NOT_THERE,
    "shardclock_server.embedded.postmaster.EmbeddedPostgresError": NOT_THERE,
    "shardclock_server.service.lines.ImportBroken": NOT_THERE,
    "shardclock_server.service.bulk_run.BulkBroken": NOT_THERE,
    "shardclock_server.cluster.failed.ClusterFailed": NOT_THERE,
    "shardclock_server.cluster.scratch.NoPlace": NOT_THERE,
    "shardclock_server.metrics.refusals.CannotListen": NOT_THERE,
    "shardclock_server.gateway.settings.CannotServe": NOT_THERE,
    "shardclock_server.gateway.settings.UnfitSchema": WRONG_SCHEMA,
    "shardclock_server.sql.cluster.rights.LacksRights": NOT_THERE,
    "shardclock_server.cli.recording.NotRecorded": NOT_THERE,
    "shardclock_server.sql.migrate.TablesInUse": NOT_DONE,
    "shardclock_server.sql.session.StatementRefused": NOT_DONE,
    "shardclock_server.sql.migrate.WrongEncoding": BAD_INPUT,
    "shardclock_server.sql.migrate.WrongSchema": WRONG_SCHEMA,
}


def exit_of(error: Exception) -> tuple[int, str] | None:
    """Return the exit code for an error, and what to say about it; None if it is a bug."""
    if _is_refused_entry(error):
        return NOT_THERE, f"{error}; is {named} right?" if (named := _dsn_variable()) else str(error)
    for kind in type(error).__mro__:
        code = EXITS.get(f"{kind.__module__}.{kind.__qualname__}")
        if code is not None:
            return code, _message_of(error)
    # Typer has its own copy of click, whose errors have no public name. They are recognized by their method.
    if hasattr(error, "format_message"):
        return BAD_INPUT, f"{_refused_number(error) or error.format_message()} (see `shardclock --help`)"
    return None


def _is_refused_entry(error: Exception) -> bool:
    """Say whether Postgres, or a pooler before it, refused to connect: wrong user, password or database."""
    return isinstance(error, StatementRefused) and error.sqlstate.startswith(("08", "28", "3D"))


def _message_of(error: Exception) -> str:
    if isinstance(error, StatementRefused) and error.sqlstate == NOT_ALLOWED:
        return f"{error}: which role may do this is in docs/operate/security.md"
    if isinstance(error, StoreUnavailable):
        named = _dsn_variable()
        doubts = f"is it up, and is {named} right?" if named else "its log is below SHARDCLOCK_DATA_DIR"
        return f"Postgres does not answer: {error}; {doubts}"
    if type(error).__name__ == "EmbeddedPostgresError":
        return f"{error}; SHARDCLOCK_DATA_DIR names another directory, SHARDCLOCK_DSN a Postgres of your own"
    return in_options(str(error)) if isinstance(error, Refusal) else str(error)


def _dsn_variable() -> str | None:
    """Return the variable that names the database; None if it is the embedded one."""
    given = {name.upper() for name, value in os.environ.items() if value}
    return next((name for name in (DSN, DSN_FILE) if name in given), None)


def _refused_number(error: Any) -> str | None:
    """Return a sentence about an option or argument that is no number, or out of its bounds; None: it is neither.

    typer's own sentence is pydantic's, which is for programmers and leaves the value out.
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
