"""The options that several commands share, except the options of filters, which are in `timer_filter`."""

import re
from collections.abc import Mapping
from datetime import timedelta
from typing import Annotated, Any, NamedTuple
from zoneinfo import ZoneInfo

import typer

from shardclock_server.cli.field_names import OPTIONS
from shardclock_server.cli.lengths import is_length, read_length
from shardclock_server.service.pauses import Pause, read_until
from shardclock_server.sql.clients.verbs import TimerRef
from shardclock_server.timers.duration import Duration
from shardclock_server.timers.model import BIGINT_MAX, NAME_RULE
from shardclock_server.timers.refusal import InvalidTimer, Refusal, shortened
from shardclock_server.timers.schedule import missed_choice_of
from shardclock_server.timers.zone import zone_of

DEFAULT_TENANT = "default"
WAIT_S_MAX = 86_400.0  # The longest wait that a command accepts; a longer wait is probably a typing error.
LISTED_MAX = 1_000  # The limit of rows in one list.
ZERO = Duration(0, 0, timedelta(0))


def key_argument(metavar: str, help_: str | None = None) -> Any:
    """Declare an argument of a command that is the number of a row: a positive bigint."""
    return typer.Argument(metavar=metavar, min=1, max=BIGINT_MAX, help=help_, show_default=False)


def limit_option(most: int = BIGINT_MAX, help_: str = "The limit of rows.") -> Any:
    """Declare the option for the limit of rows in a list."""
    return typer.Option("--limit", "-n", metavar="N", min=1, max=most, help=help_)


Key = Annotated[int | None, key_argument("[TIMER_KEY]", "The timer's key.")]
Name = Annotated[str | None, typer.Option("--name", help="The timer's name, in place of its key.")]
Tenant = Annotated[str, typer.Option("--tenant", help="The tenant.")]
MaybeTenant = Annotated[str | None, typer.Option("--tenant", help="The tenant. Default: default.")]
OfTenant = Annotated[str | None, typer.Option("--tenant", help="Only rows of this tenant. Default: all tenants.")]
Page = Annotated[
    str | None,
    typer.Option("--page", metavar="TOKEN", help="The token of the next page, as the previous list printed it."),
]
WholeUrls = Annotated[
    bool, typer.Option("--urls", help="Show whole URLs. Default: without path and query, which may be secrets.")
]
State = Annotated[
    str | None,
    typer.Option(
        "--state", metavar="STATE", help="Filter: pending or paused. Default: each state that the verb can change."
    ),
]
Reason = Annotated[str | None, typer.Option("--reason", help="The reason, which the record contains.")]

In = Annotated[str | None, typer.Option("--in", metavar="DURATION", help="After a delay, such as 15m, 2h30m or PT15M.")]
At = Annotated[
    str | None,
    typer.Option("--at", metavar="DATE", help="The due date, such as 2027-01-31T08:00:00Z; with --zone, a local time."),
]
Every = Annotated[
    str | None,
    typer.Option(
        "--every", metavar="RULE", help="The rule: a length such as 1h, an ISO 8601 repeat such as R5/P1D, or cron."
    ),
]
Cron = Annotated[
    str | None,
    typer.Option(
        "--cron",
        metavar="RULE",
        help="The rule in cron, such as '0 8 * * MON', or '0 0 8 * * MON' with seconds as the first field.",
    ),
]
Zone = Annotated[
    str | None, typer.Option("--zone", metavar="ZONE", help="The time zone, such as Europe/Berlin. Default: UTC.")
]
MissedRuns = Annotated[
    str | None,
    typer.Option(
        "--missed",
        metavar="POLICY",
        help="The rule for missed occurrences: fire_once (one firing for all), fire_all or skip.",
    ),
]
MissedByPause = Annotated[
    str | None,
    typer.Option(
        "--missed",
        metavar="RULE",
        help="The rule for the occurrences that a schedule missed during the pause: policy (its own rule), skip,"
        " fire_once or fire_all. Default: policy.",
    ),
]
Until = Annotated[
    str | None,
    typer.Option(
        "--until",
        metavar="END",
        help="The end of the pause: a moment, such as 2027-01-31T08:00:00Z or 2027-01-31T08:00[Europe/Berlin], or a"
        " length from now, such as 2h. Default: the pause lasts until a resume.",
    ),
]
OnConflict = Annotated[
    str | None,
    typer.Option(
        "--on-conflict",
        metavar="POLICY",
        help="If a pending timer already has this name: refuse, ignore or replace. Default: refuse.",
    ),
]

All = Annotated[
    bool,
    typer.Option(
        "--all", help="All timers that match the filters, instead of one timer; the command counts them first."
    ),
]
ProcessInstance = Annotated[
    int | None,
    typer.Option("--process-instance", metavar="KEY", min=1, max=BIGINT_MAX, help="Timers of this process instance."),
]
Yes = Annotated[bool, typer.Option("--yes", help="With --all: make the change; without --yes, only count the timers.")]


def timer_ref_of(timer_key: int | None, name: str | None, tenant: str | None) -> TimerRef:
    """Return the selected timer.

    errors:  Refusal  neither the timer's key nor its name is given, or both are given, or the name is empty
    """
    if (timer_key is None) == (name is None):
        raise Refusal("say which timer: give either its key or --name")
    if name == "":
        raise Refusal(f"--name '' is refused: it must be {NAME_RULE}")
    return TimerRef(timer_key, name, DEFAULT_TENANT if tenant is None else tenant)


def pause_of(until: str | None, missed: str | None, reason: str | None) -> Pause:
    """Read the options of a pause.

    errors:  InvalidTimer  the end is neither a moment nor a length of time, or the rule is unknown
    """
    if until is not None and is_length(until):
        until = str(read_length("--until", until))
    end = read_until(until, called="--until", length="a length from now such as 2h or PT2H")
    return Pause(end, missed_choice_of(missed, called="--missed"), reason)


class GivenRule(NamedTuple):
    """The rule of a schedule, and the option with which the user gave the rule."""

    option: str
    text: str


# Matches a text that is probably a wrong length of time. It can't be a rule, because a cron rule has more words, and
# other rules never begin with a digit.
LIKE_A_LENGTH = re.compile(r"\s*[0-9]\S*(\s+\S+)?\s*")


def rule_of(every: str | None, cron: str | None) -> GivenRule | None:
    """Read a schedule's rule from --every or --cron; each of the options accepts any rule, and a length such as 1h.

    errors:  Refusal       both are given
             InvalidTimer  the length is zero, or has an ambiguous unit
    """
    if every is not None and cron is not None:
        raise Refusal("--every and --cron both give the rule; remove one of the two")
    if every is not None:
        return GivenRule("--every", repeat_of("--every", every))
    return None if cron is None else GivenRule("--cron", cron)


def repeat_of(option: str, text: str) -> str:
    """Convert a length, such as 1h or PT1H, to the repeat R/PT1H; return any other rule unchanged.

    errors:  InvalidTimer  the length is zero, has an unknown form, or has a capital M, which may mean minutes or months
    """
    if not is_length(text):
        if LIKE_A_LENGTH.fullmatch(text):
            raise InvalidTimer(f"{option} {shortened(text)} is neither a length of time such as 1h30m nor a rule")
        return text
    length = read_length(option, text)
    if length == ZERO:
        raise InvalidTimer(f"{option} {shortened(text)} is zero; give a longer time, such as 1h")
    return f"R/{length}"


def option_names(rule: GivenRule | None) -> Mapping[str, str]:
    """Map each field to its option.

    The field `schedule` is mapped to the option with which the caller gave the rule; without a rule, to both options.
    """
    return OPTIONS | {"schedule": "--every (or --cron)" if rule is None else rule.option}


def clock_of(zone: str | None) -> ZoneInfo | None:
    """Return the zone of --zone, for times without an offset; None without the option.

    errors:  InvalidTimer  the zone is unknown
    """
    try:
        return None if zone is None else zone_of(zone)
    except InvalidTimer as refusal:
        raise InvalidTimer(f"--zone {refusal}") from None
