"""The options that several commands share, and what they mean together: one timer, or many by a filter."""

import re
from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Annotated, NamedTuple
from zoneinfo import ZoneInfo

import typer

from shardclock_server.cli.field_names import OPTIONS
from shardclock_server.cli.lengths import is_length, read_length
from shardclock_server.service import filters
from shardclock_server.sql.clients.history import Filter
from shardclock_server.sql.clients.verbs import TimerRef
from shardclock_server.timers.duration import Duration
from shardclock_server.timers.model import BIGINT_MAX
from shardclock_server.timers.refusal import InvalidTimer, Refusal, shortened
from shardclock_server.timers.zone import zone_of

DEFAULT_TENANT = "default"
WAIT_S_MAX = 86_400.0  # of any wait: a longer one is a typing error, and infinity would fail later
LISTED_MAX = 1_000  # of one list
ZERO = Duration(0, 0, timedelta(0))

Key = Annotated[
    int | None,
    typer.Argument(metavar="[TIMER_KEY]", min=1, max=BIGINT_MAX, help="The timer's key.", show_default=False),
]
Name = Annotated[str | None, typer.Option("--name", help="The timer's name, instead of its key.")]
Tenant = Annotated[str, typer.Option("--tenant", help="The tenant.")]
MaybeTenant = Annotated[str | None, typer.Option("--tenant", help="The tenant; if not given, default.")]
OfTenant = Annotated[str | None, typer.Option("--tenant", help="Only of this tenant; if not given, of all.")]
Reason = Annotated[str | None, typer.Option("--reason", help="Kept in the record.")]

In = Annotated[str | None, typer.Option("--in", metavar="DURATION", help="After a delay, such as 15m, 2h30m or PT15M.")]
At = Annotated[
    str | None,
    typer.Option(
        "--at", metavar="DATE", help="At a moment, such as 2027-01-31T08:00:00Z; a local time if --zone is given."
    ),
]
Every = Annotated[
    str | None,
    typer.Option("--every", metavar="RULE", help="Every 1h, by an ISO 8601 repeat such as R5/P1D, or by cron."),
]
Cron = Annotated[
    str | None,
    typer.Option("--cron", metavar="RULE", help="Like --every: '0 8 * * MON', or with seconds first '0 0 8 * * MON'."),
]
Zone = Annotated[
    str | None, typer.Option("--zone", metavar="ZONE", help="The time zone, such as Europe/Berlin; if not given, UTC.")
]
MissedRuns = Annotated[
    str | None,
    typer.Option("--missed", metavar="POLICY", help="What to do about missed runs: fire_once (one), fire_all or skip."),
]
OnConflict = Annotated[
    str | None,
    typer.Option(
        "--on-conflict",
        metavar="POLICY",
        help="What to do if the name is taken: refuse (if not given), ignore or replace.",
    ),
]

All = Annotated[bool, typer.Option("--all", help="All that match the filters, instead of one; counts them first.")]
OfTarget = Annotated[str | None, typer.Option("--target", help="Filter: of this target, such as webhook:billing.")]
NamePrefix = Annotated[str | None, typer.Option("--name-prefix", help="Filter: the name begins with this.")]
DueFrom = Annotated[str | None, typer.Option("--due-from", metavar="DATE", help="Filter: due at this moment or later.")]
DueBefore = Annotated[str | None, typer.Option("--due-before", metavar="DATE", help="Filter: due before this moment.")]
ProcessInstance = Annotated[
    int | None,
    typer.Option("--process-instance", metavar="KEY", min=1, max=BIGINT_MAX, help="Of this process instance."),
]
Yes = Annotated[bool, typer.Option("--yes", help="With --all: do it, instead of counting only.")]


def which_of(timer_key: int | None, name: str | None, tenant: str | None) -> TimerRef:
    """Return the one timer that is meant.

    errors:  Refusal  neither its key nor its name is given, or both
    """
    if (timer_key is None) == (name is None):
        raise Refusal("say which timer: give either its key or --name")
    return TimerRef(timer_key, name, DEFAULT_TENANT if tenant is None else tenant)


def filter_of(
    tenant: str | None,
    name_prefix: str | None,
    due_from: str | None,
    due_before: str | None,
    process_instance: int | None,
    *,
    target: str | None = None,
    clock: ZoneInfo | None = None,
) -> Filter:
    """Read a filter; names belong to a tenant, so a name prefix without a tenant means the default tenant.

    errors:  Refusal  not a moment, or a window that ends before it begins
    """
    if name_prefix is not None and tenant is None:
        tenant = DEFAULT_TENANT
    return filters.filter_of(
        tenant, name_prefix, due_from, due_before, process_instance, target=target, clock=clock, called=OPTIONS
    )


def one_or_many(timer_key: int | None, name: str | None, wanted: Filter, *, every: bool) -> TimerRef | Filter:
    """Decide whether one timer or many are meant; --all or a process instance means many.

    shape:   a filter always has a tenant, unless it has a process instance
    errors:  Refusal  neither is meant, or both
    """
    many = every or wanted.process_instance_key is not None
    narrowed = replace(wanted, tenant_id=None) != Filter()
    if (many or narrowed) and not (timer_key is None and name is None):
        raise Refusal("say either one timer, by its key or --name, or many, by --all and filters; not both")
    if narrowed and not many:
        raise Refusal("--name-prefix, --target, --due-from and --due-before choose among many timers; add --all")
    if not many:
        if timer_key is None and name is None:
            raise Refusal("say which timer: give either its key or --name, or --all for many")
        return which_of(timer_key, name, wanted.tenant_id)
    if wanted.tenant_id is None and wanted.process_instance_key is None:
        return replace(wanted, tenant_id=DEFAULT_TENANT)
    return wanted


class GivenRule(NamedTuple):
    """A schedule's rule, and the option that it came from."""

    option: str
    text: str


LIKE_A_LENGTH = re.compile(r"\s*[0-9]\S*(\s+\S+)?\s*")  # no rule of one or two words begins with a digit


def rule_of(every: str | None, cron: str | None) -> GivenRule | None:
    """Read a schedule's rule from either of the two options; each may hold a rule of any kind, or a length such as 1h.

    errors:  Refusal       both are given
             InvalidTimer  a length of zero, or with a unit that may mean two things
    """
    if every is not None and cron is not None:
        raise Refusal("--every and --cron both give the rule; leave one of them out")
    if every is not None:
        return GivenRule("--every", repeat_of("--every", every))
    return None if cron is None else GivenRule("--cron", cron)


def repeat_of(option: str, text: str) -> str:
    """Write a length, such as 1h or PT1H, as the repeat R/PT1H; return any other rule as it is.

    errors:  InvalidTimer  a length of zero, with a capital M, which may mean minutes or months, or of no known form
    """
    if not is_length(text):
        if LIKE_A_LENGTH.fullmatch(text):
            raise InvalidTimer(f"{option} {shortened(text)} is neither a length of time such as 1h30m nor a rule")
        return text
    length = read_length(option, text)
    if length == ZERO:
        raise InvalidTimer(f"{option} {shortened(text)} is zero; give a length of time longer than that, such as 1h")
    return f"R/{length}"


def called_of(rule: GivenRule | None) -> Mapping[str, str]:
    """Name each field's option; the rule's is the one that gave it, or both if it is not given."""
    return OPTIONS | {"schedule": "--every (or --cron)" if rule is None else rule.option}


def clock_of(zone: str | None) -> ZoneInfo | None:
    """Find the zone of --zone, on whose clock times without an offset are read; None if it is not given.

    errors:  InvalidTimer  there is no such zone
    """
    try:
        return None if zone is None else zone_of(zone)
    except InvalidTimer as refusal:
        raise InvalidTimer(f"--zone {refusal}") from None
