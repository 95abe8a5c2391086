"""The commands that show timers: list, show, preview."""

import shlex
from datetime import UTC, datetime
from typing import Annotated
from zoneinfo import ZoneInfo

import typer
from rich.table import Column

from shardclock_server.cli.delivery_words import fields_of_delivery
from shardclock_server.cli.lists import tell_more
from shardclock_server.cli.options import (
    DEFAULT_TENANT,
    LISTED_MAX,
    DueBefore,
    DueFrom,
    Key,
    Name,
    NamePrefix,
    OfTarget,
    ProcessInstance,
    Tenant,
    Zone,
    clock_of,
    filter_of,
    repeat_of,
    which_of,
)
from shardclock_server.cli.output import (
    DONE,
    NOT_DONE,
    Json,
    hex_of,
    on_clock,
    print_json,
    print_records,
    print_table,
    tell,
)
from shardclock_server.cli.session import with_session
from shardclock_server.service.filters import moment_of
from shardclock_server.service.single_change import UnknownTimer
from shardclock_server.sql.clients.history import TimerState, find_timer, find_timers, records_of
from shardclock_server.sql.deliveries.find import find_delivery
from shardclock_server.sql.session import Session
from shardclock_server.timers.moment import canonical_moment
from shardclock_server.timers.preview import preview as foresee
from shardclock_server.timers.refusal import Refusal, shortened
from shardclock_server.timers.schedule import first_of, parse_schedule

STATES = ("pending", "paused", "triggered", "canceled", "skipped", "ended")
FORESEEN_MAX = 1_000


def list_(
    state: Annotated[str, typer.Option("--state", help=f"One of {', '.join(STATES)}.")] = "pending",
    tenant: Annotated[
        str | None, typer.Option("--tenant", help="Only this tenant; if not given: all, or default if --name is given.")
    ] = None,
    name: Annotated[str | None, typer.Option("--name", help="Only timers of this name.")] = None,
    name_prefix: NamePrefix = None,
    due_from: DueFrom = None,
    due_before: DueBefore = None,
    process_instance: ProcessInstance = None,
    target: OfTarget = None,
    zone: Annotated[
        str | None, typer.Option("--zone", metavar="ZONE", help="Show dates, and read those given, in this time zone.")
    ] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=LISTED_MAX, help="How many to show.")] = 20,
    page: Annotated[
        str | None, typer.Option("--page", metavar="TOKEN", help="Continue where the last list ended.")
    ] = None,
    as_json: Json = False,
) -> int:
    """List pending timers, soonest first, or paused ones, or ended ones, newest first.

    With --json: {"timers": [...], "next_page": TOKEN or null}, dates in UTC.
    """
    if state.lower() not in STATES:
        raise Refusal(f"--state {shortened(state)} is unknown: use {', '.join(STATES[:-1])} or {STATES[-1]}")
    clock = clock_of(zone)
    if name is not None and tenant is None:
        tenant = DEFAULT_TENANT
    wanted = filter_of(tenant, name_prefix, due_from, due_before, process_instance, target=target, clock=clock)

    async def do(session: Session) -> int:
        found = await find_timers(session, state.upper(), wanted, name=name, size=limit, page=page)
        if as_json:
            print_json({"timers": found.timers, "next_page": found.next})
            return DONE
        rows = [_row(timer, clock) for timer in found.timers]
        print_table("", ["timer_key", "state", "due", "ended", "tenant", "target", "name", "schedule"], rows)
        if found.next is not None:
            tell_more(f"--page {shlex.quote(found.next)}")
        return DONE

    return with_session(do)


def show(timer_key: Key = None, name: Name = None, tenant: Tenant = DEFAULT_TENANT, as_json: Json = False) -> int:
    """Show one timer, and what happened to it last."""
    which = which_of(timer_key, name, tenant)

    async def do(session: Session) -> int:
        timer = await find_timer(session, which)
        if timer is None:
            tell(f"shardclock: {UnknownTimer(which)}")
            return NOT_DONE
        records = await records_of(session, which)
        delivery = await find_delivery(session, timer.timer_key)
        if as_json:
            print_json({"timer": timer, "delivery": delivery, "records": records})
        else:
            print_table("", ["field", "value"], _fields(timer))
            if delivery is not None:
                print_table("delivery", ["field", "value"], fields_of_delivery(delivery, without="timer_key"))
            print_records(records)
        return DONE

    return with_session(do)


def preview(
    rule: Annotated[str, typer.Argument(metavar="RULE", help="An ISO 8601 repeat, or cron such as '0 8 * * MON'.")],
    zone: Zone = None,
    count: Annotated[int, typer.Option("-n", min=1, max=FORESEEN_MAX, help="How many to show.")] = 10,
    start: Annotated[
        str | None,
        typer.Option(
            "--from", metavar="DATE", help="As if scheduled at this moment; if not given, now on this machine."
        ),
    ] = None,
    as_json: Json = False,
) -> int:
    """Show when a schedule will fire, and where a change of the clock matters; needs no database."""
    beside = clock_of(zone)
    rule = repeat_of("RULE", rule)
    schedule = parse_schedule(rule, beside.key if beside else "UTC")
    clock = None if zone is None and "[" not in rule else schedule.zone
    now = datetime.now(UTC).replace(microsecond=0)
    created = now if start is None else moment_of("--from", start, clock)
    first_of(schedule, created)
    foreseen = foresee(schedule, created, count=count)
    if as_json:
        print_json([{"number": f.number, "due_date": f.moment, "local": f.local, "note": f.edge} for f in foreseen])
    else:
        columns = [Column("number"), Column(str(schedule.zone), no_wrap=True), Column("in UTC", no_wrap=True), Column()]
        rows = [(f.number, _spaced(f.local), _spaced(canonical_moment(f.moment)), f.edge) for f in foreseen]
        print_table("", columns, rows)
    return DONE


def _spaced(moment: str) -> str:
    return moment.replace("T", " ")


def _row(timer: TimerState, clock: ZoneInfo | None) -> tuple[object, ...]:
    due, ended = on_clock(timer.due_date, clock), on_clock(timer.ended_at, clock)
    return timer.timer_key, timer.state, due, ended, timer.tenant_id, timer.target, timer.name, timer.schedule


def _fields(timer: TimerState) -> list[tuple[str, object]]:
    values = {name: getattr(timer, name) for name in TimerState.__slots__}
    values["holder"] = hex_of(timer.holder)
    if timer.schedule is None:
        values["missed"] = None
    return [(name, value) for name, value in values.items() if value is not None]
