"""Record in the audit what operators do: the one seam that each of their commands passes.

`record_verbs` wraps the commands, and `cli.session` writes the record in the session that did the work. What a command
refuses before it asks the database leaves no record.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextvars import ContextVar
from functools import wraps
from pathlib import Path
from typing import Any, TypeVar

import typer

from shardclock_server.cli.output import DONE
from shardclock_server.service import audit
from shardclock_server.service.audit import shown
from shardclock_server.sql.audit.acts import NewAct, record_act
from shardclock_server.sql.session import Session, StatementRefused, StoreUnavailable
from shardclock_server.timers.refusal import Refusal

T = TypeVar("T")
Options = Mapping[str, Any]
Command = Callable[..., Any]
NO_MATTER = frozenset({"as_json", "wait"})  # options that change only what is printed, and when
RECORD_S = 5.0  # after a command was interrupted, or Postgres is away, nobody waits longer


class NotRecorded(Exception):
    """What was done is not in the audit; the message says why."""


def _always(_: Options) -> bool:
    return True


def _if_yes(given: Options) -> bool:
    return bool(given["yes"])


def _if_many(given: Options) -> bool:
    return bool(given["yes"] and (given["all_timers"] or given["process_instance"]))


def _if_given(*names: str) -> Callable[[Options], bool]:
    return lambda given: any(given[name] is not None for name in names)


# The verbs of operators, and with which options each does something. A change of one timer is its client's, and the
# command log has it.
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
    "tenants set": _always,
    "tenants remove": _always,
}
_ACT: ContextVar[NewAct | None] = ContextVar("act", default=None)


def record_verbs(app: typer.Typer) -> None:
    """Let each verb of an operator leave a record."""
    for name, command in _commands_of(app):
        if name in VERBS and command.callback is not None:
            command.callback = _recorded(name, command.callback)


async def recorded(session: Session, work: Callable[[Session], Awaitable[T]]) -> T:
    """Do a command's work, and record how it ended, if the command is a verb of an operator.

    errors:  NotRecorded  it is done, and not in the audit
             whatever the work raises
    """
    act = _ACT.get()
    if act is None:
        return await work(session)
    try:
        result = await work(session)
    except (Refusal, StatementRefused):
        await _try_to_record(session, act, audit.NOT_DONE)
        raise
    except (Exception, asyncio.CancelledError):
        await _try_to_record(session, act, audit.FAILED)
        raise
    is_done = result is None or result == DONE
    why = await _try_to_record(session, act, audit.DONE if is_done else audit.NOT_DONE)
    if why is not None:
        raise NotRecorded(f"{act.verb} is {'done' if is_done else 'not done'}, and that is not in the audit: {why}")
    return result


def _commands_of(app: typer.Typer, *, before: str = "") -> Iterator[tuple[str, "typer.models.CommandInfo"]]:
    """List all commands of a program with their names, such as "endpoints add"."""
    for command in app.registered_commands:
        assert command.callback is not None
        name = command.name or command.callback.__name__.replace("_", "-")
        yield f"{before}{name}", command
    for group in app.registered_groups:
        assert group.typer_instance is not None
        yield from _commands_of(group.typer_instance, before=f"{before}{group.name} ")


async def _try_to_record(session: Session, act: NewAct, outcome: str) -> str | None:
    """Record how an act ended; return why that could not be."""
    try:
        async with asyncio.timeout(RECORD_S):
            await record_act(session, act, outcome)
    except (StoreUnavailable, StatementRefused, TimeoutError) as error:
        return str(error) or "Postgres gave no answer in time"
    return None


def _recordable(value: object) -> object:
    """Make of a file its name, as the HTTP API has it: where it lies says nothing on another machine."""
    return value.name if isinstance(value, Path) else value


def _recorded(verb: str, command: Command) -> Command:
    @wraps(command)
    def acting(**options: Any) -> Any:
        asked = {name: _recordable(value) for name, value in options.items() if name not in NO_MATTER}
        act = NewAct("cli", verb, shown(asked), options.get("tenant")) if VERBS[verb](options) else None
        before = _ACT.set(act)
        try:
            return command(**options)
        finally:
            _ACT.reset(before)

    return acting
