"""Record operators' commands in the audit.

`record_verbs` wraps the commands. `cli.session` writes the record in the command's database session. A command that
fails before it opens a session has no record.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextvars import ContextVar
from dataclasses import replace
from functools import wraps
from pathlib import Path
from typing import Any, TypeVar

import typer

from shardclock_server.cli.output import DONE
from shardclock_server.service import audit
from shardclock_server.service.audit import recorded_fields
from shardclock_server.sql.audit.acts import NewAuditRecord, record_act
from shardclock_server.sql.session import Session, StatementRefused, StoreUnavailable
from shardclock_server.timers.refusal import Refusal

T = TypeVar("T")
Options = Mapping[str, Any]
Command = Callable[..., Any]
UNRECORDED_OPTIONS = frozenset({"as_json", "wait"})  # These options change the output or the wait, not the work.
# The time limit for the write of a record; it also holds after an interrupt, and if Postgres does not answer.
RECORD_S = 5.0


class NotRecorded(Exception):
    """The command's record could not be written to the audit; the message has the reason."""


def _always(_: Options) -> bool:
    return True


def _if_yes(given: Options) -> bool:
    return bool(given["yes"])


def _if_many(given: Options) -> bool:
    return bool(given["yes"] and (given["all_timers"] or given["process_instance"]))


def _if_given(*names: str) -> Callable[[Options], bool]:
    return lambda given: any(given[name] is not None for name in names)


# The operators' verbs, each with a function that returns whether the given options cause a change. A change of one
# timer is not included, because the command log records it as a client's change.
VERBS: Mapping[str, Callable[[Options], bool]] = {
    "scale": _if_given("asked", "least", "most", "target"),
    "ramp": _if_given("per_second"),
    "switch": _always,
    "leave": _always,
    "hold": _always,
    "release": _if_yes,
    "cancel": _if_many,
    "pause": _if_many,
    "resume": _if_many,
    "reschedule": _if_many,
    "operate": _always,
    "consumers reset": _if_yes,
    "consumers drop": _if_yes,
    "dead-letters redrive": _if_yes,
    "dead-letters discard": _if_yes,
    "deliveries retry": lambda given: given["timer_key"] is not None or bool(given["yes"]),
    "deliveries cancel": _always,
    "endpoints add": _always,
    "endpoints change": _always,
    "endpoints rotate": _always,
    "endpoints test": _always,
    "endpoints enable": _always,
    "endpoints disable": _always,
    "endpoints remove": _always,
    "jobs add": _always,
    "jobs remove": _always,
    "jobs apply": lambda given: not given["dry_run"],
    "jobs run": _always,
    "jobs cancel": _always,
    "jobs disable": _always,
    "jobs enable": _always,
    "jobs configure": _always,
    "deploy": _always,
    "processes cancel": _always,
    "processes delete": _always,
    "processes set": _always,
    "processes move": _always,
    "processes resolve": lambda given: given["instance_key"] is not None or bool(given["yes"]),
    "keys add": _always,
    "keys rotate": _always,
    "keys revoke": _always,
    "notify add": _always,
    "notify remove": _always,
    "notify test": _always,
    "operations cancel": _always,
    "tenants set": _always,
    "tenants remove": _always,
}
_ACT: ContextVar[NewAuditRecord | None] = ContextVar("act", default=None)


def record_verbs(app: typer.Typer) -> None:
    """Wrap the operators' commands, so that each of these commands writes a record."""
    for name, command in _commands_of(app):
        if name in VERBS and command.callback is not None:
            command.callback = _recorded(name, command.callback)


async def recorded(session: Session, work: Callable[[Session], Awaitable[T]]) -> T:
    """Run a command's work; if the audit records this command, record the outcome.

    errors:  NotRecorded  the work is done, but the audit lacks the record
             any other error   from the work
    """
    if _ACT.get() is None:
        return await work(session)
    try:
        result = await work(session)
    except (Refusal, StatementRefused):
        await _try_to_record(session, audit.NOT_DONE)
        raise
    except (Exception, asyncio.CancelledError):
        await _try_to_record(session, audit.FAILED)
        raise
    is_not_done = isinstance(result, int) and result != DONE  # any other result is no exit code
    await _record(session, audit.NOT_DONE if is_not_done else audit.DONE)
    return result


async def record_done(session: Session) -> None:
    """Record the running command as done, before it waits for the effect of its change.

    errors:  NotRecorded  the change is made, but the audit lacks the record
    """
    await _record(session, audit.DONE)


def _commands_of(app: typer.Typer, *, before: str = "") -> Iterator[tuple[str, "typer.models.CommandInfo"]]:
    """Yield all commands of a program with their names, such as "endpoints add"."""
    for command in app.registered_commands:
        assert command.callback is not None
        name = command.name or command.callback.__name__.replace("_", "-")
        yield f"{before}{name}", command
    for group in app.registered_groups:
        assert group.typer_instance is not None
        yield from _commands_of(group.typer_instance, before=f"{before}{group.name} ")


def note_result(fields: Mapping[str, object]) -> None:
    """Add the result of a command's work, such as the number of changed rows, to the command's record."""
    if (act := _ACT.get()) is not None:
        _ACT.set(replace(act, parameters={**act.parameters, **recorded_fields(fields)}))


def is_recorded() -> bool:
    """Return whether the audit records the running command."""
    return _ACT.get() is not None


async def _record(session: Session, outcome: str) -> None:
    act = _ACT.get()
    why = await _try_to_record(session, outcome)
    if act is not None and why is not None:
        raise NotRecorded(f"{act.verb} is {outcome}, and the audit has no record of it: {why}")


async def _try_to_record(session: Session, outcome: str) -> str | None:
    """Record an outcome unless the command has a record already; if the write fails, return the reason."""
    act = _ACT.get()
    if act is None:
        return None
    _ACT.set(None)
    try:
        async with asyncio.timeout(RECORD_S):
            await record_act(session, act, outcome)
    except (StoreUnavailable, StatementRefused, TimeoutError) as error:
        return str(error) or "Postgres did not answer before the timeout"
    return None


def _recordable(value: object) -> object:
    """Replace a file's path by its name, because the path has no meaning on another machine."""
    return value.name if isinstance(value, Path) else value


def _recorded(verb: str, command: Command) -> Command:
    @wraps(command)
    def run_recorded(**options: Any) -> Any:
        asked = {name: _recordable(value) for name, value in options.items() if name not in UNRECORDED_OPTIONS}
        act = (
            NewAuditRecord("cli", verb, recorded_fields(asked), options.get("tenant")) if VERBS[verb](options) else None
        )
        before = _ACT.set(act)
        try:
            return command(**options)
        finally:
            _ACT.reset(before)

    return run_recorded
