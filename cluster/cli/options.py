"""The options that several commands share, and what they say together: one timer, or many by a filter."""

from dataclasses import replace
from datetime import datetime
from typing import Annotated
from zoneinfo import ZoneInfo

import typer

from sql.history import Filter
from sql.verbs import Which
from timers.model import BIGINT_MAX
from timers.moment import parse_due_date
from timers.refusal import InvalidTimer
from timers.zone import zone_of

DEFAULT_TENANT = "default"
WAIT_S_MAX = 86_400.0  # of any wait: longer is a slip of the hand, and infinity would fail later

Key = Annotated[
    int | None,
    typer.Argument(metavar="[TIMER_KEY]", min=1, max=BIGINT_MAX, help="The timer's key.", show_default=False),
]
Name = Annotated[str | None, typer.Option("--name", help="The timer's name, instead of its key.")]
Tenant = Annotated[str, typer.Option("--tenant", help="The tenant.")]
MaybeTenant = Annotated[str | None, typer.Option("--tenant", help="The tenant; if not given, default.")]
Reason = Annotated[str | None, typer.Option("--reason", help="Kept in the record.")]

In = Annotated[str | None, typer.Option("--in", metavar="DURATION", help="After an ISO 8601 delay, such as PT15M.")]
At = Annotated[
    str | None,
    typer.Option(
        "--at", metavar="DATE", help="At a moment, such as 2027-01-31T08:00:00Z; a local time if --zone is given."
    ),
]
Every = Annotated[
    str | None,
    typer.Option("--every", metavar="RULE", help="By an ISO 8601 repeat, such as R/PT1H or R5/P1D, or by cron."),
]
Cron = Annotated[
    str | None,
    typer.Option("--cron", metavar="RULE", help="The same: '0 8 * * MON', or '0 0 8 * * MON' that begins at seconds."),
]
Zone = Annotated[
    str | None, typer.Option("--zone", metavar="ZONE", help="On whose clock, such as Europe/Berlin; if not given, UTC.")
]
MissedRuns = Annotated[
    str | None,
    typer.Option("--missed", metavar="POLICY", help="What becomes of runs missed: fire_once (one), fire_all or skip."),
]

All = Annotated[bool, typer.Option("--all", help="All that match the filters, instead of one; counts them first.")]
NamePrefix = Annotated[str | None, typer.Option("--name-prefix", help="Filter: with a name that begins so.")]
DueFrom = Annotated[str | None, typer.Option("--due-from", metavar="DATE", help="Filter: due then or later.")]
DueBefore = Annotated[str | None, typer.Option("--due-before", metavar="DATE", help="Filter: due before then.")]
ProcessInstance = Annotated[
    int | None,
    typer.Option("--process-instance", metavar="KEY", min=1, max=BIGINT_MAX, help="Of this process instance."),
]
Yes = Annotated[bool, typer.Option("--yes", help="With --all: do it, instead of counting only.")]


def which_of(timer_key: int | None, name: str | None, tenant: str | None) -> Which:
    """Read which one timer is meant.

    errors:  InvalidTimer  neither its key nor its name is given, or both
    """
    if (timer_key is None) == (name is None):
        raise InvalidTimer("say which timer: give either its key or --name")
    return Which(timer_key, name, DEFAULT_TENANT if tenant is None else tenant)


def filter_of(
    tenant: str | None,
    name_prefix: str | None,
    due_from: str | None,
    due_before: str | None,
    process_instance: int | None,
    *,
    clock: ZoneInfo | None = None,
) -> Filter:
    """Read a filter; names are a tenant's own, so a prefix without a tenant is of the default tenant.

    errors:  InvalidTimer  not a moment, or a window that ends before it begins
    """
    start = None if due_from is None else moment_of("--due-from", due_from, clock)
    end = None if due_before is None else moment_of("--due-before", due_before, clock)
    if start and end and start >= end:
        raise InvalidTimer(f"nothing is due between --due-from {due_from} and --due-before {due_before}; swap them")
    if name_prefix is not None and tenant is None:
        tenant = DEFAULT_TENANT
    return Filter(tenant, name_prefix, start, end, process_instance)


def one_or_many(timer_key: int | None, name: str | None, wanted: Filter, *, every: bool) -> Which | Filter:
    """Tell one timer from many, which are meant by --all or by their process instance.

    shape:   a filter is of one tenant, unless it is of a process instance
    errors:  InvalidTimer  neither is meant, or both
    """
    many = every or wanted.process_instance_key is not None
    narrowed = replace(wanted, tenant_id=None) != Filter()
    if (many or narrowed) and not (timer_key is None and name is None):
        raise InvalidTimer("say either one timer, by its key or --name, or many, by --all and filters; not both")
    if narrowed and not many:
        raise InvalidTimer("--name-prefix, --due-from and --due-before choose among many timers; add --all")
    if not many:
        if timer_key is None and name is None:
            raise InvalidTimer("say which timer: give either its key or --name, or --all for many")
        return which_of(timer_key, name, wanted.tenant_id)
    if wanted.tenant_id is None and wanted.process_instance_key is None:
        return replace(wanted, tenant_id=DEFAULT_TENANT)
    return wanted


def rule_of(every: str | None, cron: str | None) -> str | None:
    """Read a schedule's rule from the two options that may hold it, whichever kind it is.

    errors:  InvalidTimer  both are given
    """
    if every is not None and cron is not None:
        raise InvalidTimer("--every and --cron both give the rule; leave one of them out")
    return cron if every is None else every


def clock_of(zone: str | None) -> ZoneInfo | None:
    """Find the zone that is given, on whose clock times without an offset are read.

    errors:  InvalidTimer  there is no such zone
    """
    return None if zone is None else zone_of(zone)


def moment_of(option: str, text: str, clock: ZoneInfo | None) -> datetime:
    """Read the moment that an option gives, on a zone's clock if there is one.

    errors:  InvalidTimer  not a moment
    """
    try:
        return parse_due_date(text, clock)
    except InvalidTimer as refusal:
        raise InvalidTimer(f"{option} {refusal}") from None
