"""The options that filter timers, and the choice between one timer and many, for several commands."""

from collections.abc import Callable
from dataclasses import fields, replace
from functools import wraps
from inspect import Parameter, signature
from typing import Annotated, Any, TypeVar
from zoneinfo import ZoneInfo

import typer

from shardclock_server.cli.field_names import OPTIONS
from shardclock_server.cli.options import DEFAULT_TENANT, ProcessInstance, timer_ref_of
from shardclock_server.service import filters
from shardclock_server.service.filters import GivenFilter
from shardclock_server.sql.clients.search import TimerFilter
from shardclock_server.sql.clients.verbs import TimerRef
from shardclock_server.timers.refusal import Refusal

Command = TypeVar("Command", bound=Callable[..., int])


def _moment(option: str, sentence: str) -> Any:
    return Annotated[str | None, typer.Option(option, metavar="DATE", help=f"Filter: {sentence}.")]


# The options by parameter, without --tenant, which each command declares.
FILTER_OPTIONS: dict[str, Any] = {
    "name_prefix": Annotated[
        str | None, typer.Option("--name-prefix", help="Filter: timers with a name that begins with this text.")
    ],
    "name_contains": Annotated[
        str | None,
        typer.Option("--name-contains", help="Filter: timers with this text in their name, in upper or lower case."),
    ],
    "due_from": _moment("--due-from", "timers due at this moment or later"),
    "due_before": _moment("--due-before", "timers due before this moment"),
    "changed_from": _moment(
        "--changed-from",
        "timers that a client changed or paused, or that ended, at this moment or later",
    ),
    "changed_before": _moment(
        "--changed-before", "timers that a client changed or paused, or that ended, before this moment"
    ),
    "process_instance": ProcessInstance,
    "target": Annotated[
        str | None, typer.Option("--target", help="Filter: timers with this target, such as webhook:billing.")
    ],
    "only_schedules": Annotated[bool, typer.Option("--only-schedules", help="Filter: only timers with a rule.")],
}
NO_FILTER = GivenFilter()
NEEDS_TENANT = ("name_prefix", "name_contains", "changed_from", "changed_before")


def takes_filter(command: Command) -> Command:
    """Replace the parameter `given` of a command by the options of a filter."""
    defaults = {field.name.removesuffix("_key"): field.default for field in fields(GivenFilter)}
    shape = signature(command)
    options = [
        Parameter(name, Parameter.POSITIONAL_OR_KEYWORD, default=defaults[name], annotation=option)
        for name, option in FILTER_OPTIONS.items()
    ]
    parameters = [it for own in shape.parameters.values() for it in (options if own.name == "given" else [own])]

    @wraps(command)
    def filtered(**values: Any) -> int:
        key = values.pop("process_instance")
        others = {name: values.pop(name) for name in FILTER_OPTIONS if name != "process_instance"}
        return command(**values, given=GivenFilter(process_instance_key=key, **others))

    # Typer reads a command's options from its signature and its annotations.
    filtered.__signature__ = shape.replace(parameters=parameters)  # type: ignore[attr-defined]
    filtered.__annotations__ = {it.name: it.annotation for it in parameters}
    return filtered  # type: ignore[return-value]


def filter_of(
    tenant: str | None, given: GivenFilter, *, clock: ZoneInfo | None = None, needs_tenant: bool = False
) -> TimerFilter:
    """Read a filter.

    A search by name or by last change is limited to one tenant, which is `default` if no tenant is given.

    errors:  Refusal  a text is not a moment, or a window ends before it begins
    """
    if tenant is None and (needs_tenant or any(getattr(given, field) is not None for field in NEEDS_TENANT)):
        tenant = DEFAULT_TENANT
    return filters.filter_of(replace(given, tenant_id=tenant), clock=clock, called=OPTIONS)


def one_or_many(
    timer_key: int | None, name: str | None, wanted: TimerFilter, *, every: bool, state: str | None = None
) -> TimerRef | TimerFilter:
    """Return the one timer or the filter for many timers that the options select.

    --all or a process instance selects many.

    shape:   a filter for many timers always has a tenant, unless it has a process instance
    errors:  Refusal  the options select no timer, or both one timer and many
    """
    many = every or wanted.process_instance_key is not None
    narrowed = replace(wanted, tenant_id=None) != TimerFilter() or state is not None
    if (many or narrowed) and not (timer_key is None and name is None):
        raise Refusal("choose either one timer by its key or --name, or many with --all and filters")
    if narrowed and not many:
        raise Refusal("a filter, such as --name-prefix or --target, is for many timers; add --all")
    if not many:
        if timer_key is None and name is None:
            raise Refusal("say which timer: give either its key or --name, or --all for many")
        return timer_ref_of(timer_key, name, wanted.tenant_id)
    if wanted.tenant_id is None and wanted.process_instance_key is None:
        return replace(wanted, tenant_id=DEFAULT_TENANT)
    return wanted
