"""The commands that show timers: list, show, preview."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Annotated
from zoneinfo import ZoneInfo

import typer
from rich.table import Column

from shardclock_server.cli.delivery_fields import fields_of_delivery
from shardclock_server.cli.field_names import OPTIONS, in_options
from shardclock_server.cli.lists import page_note, print_list
from shardclock_server.cli.options import (
    DEFAULT_TENANT,
    LISTED_MAX,
    Key,
    Name,
    Page,
    Tenant,
    Zone,
    clock_of,
    limit_option,
    repeat_of,
    timer_ref_of,
)
from shardclock_server.cli.output import DONE, Json, hex_of, on_clock, print_json, print_records, print_table
from shardclock_server.cli.session import with_session
from shardclock_server.cli.timer_filter import NO_FILTER, filter_of, takes_filter
from shardclock_server.service.filters import GivenFilter, moment_of
from shardclock_server.service.single_change import UnknownTimer
from shardclock_server.sql.clients.history import TimerState, find_timer, records_of
from shardclock_server.sql.clients.search import TIMER_STATES, find_timers
from shardclock_server.sql.deliveries.find import find_delivery
from shardclock_server.sql.session import Session
from shardclock_server.timers.moment import canonical_moment
from shardclock_server.timers.preview import preview as list_preview
from shardclock_server.timers.refusal import InvalidTimer, Refusal, unknown
from shardclock_server.timers.schedule import first_of, parse_schedule

FORESEEN_MAX = 1_000


@takes_filter
def list_(
    state: Annotated[str, typer.Option("--state", help=f"One of {', '.join(TIMER_STATES)}.")] = "pending",
    tenant: Annotated[
        str | None,
        typer.Option(
            "--tenant",
            help="Only timers of this tenant. Default: all tenants, or the tenant `default` with --name or"
            " --order-by change.",
        ),
    ] = None,
    name: Annotated[str | None, typer.Option("--name", help="Only timers of this name.")] = None,
    given: GivenFilter = NO_FILTER,
    order_by: Annotated[
        str | None,
        typer.Option(
            "--order-by",
            metavar="ORDER",
            help="The order: `due` by due date, `change` by the last change, newest first. Ended timers are always"
            " sorted by change.",
        ),
    ] = None,
    zone: Annotated[
        str | None,
        typer.Option("--zone", metavar="ZONE", help="The time zone of the shown dates and of the dates in options."),
    ] = None,
    limit: Annotated[int, limit_option(LISTED_MAX)] = 20,
    page: Page = None,
    as_json: Json = False,
) -> int:
    """List timers: pending timers soonest first, paused timers by key, or ended timers newest first.

    With --json: {"timers": [...], "next_page": TOKEN or null}, dates in UTC.
    """
    if state.lower() not in TIMER_STATES:
        raise Refusal(f"--state {unknown(state, TIMER_STATES)}")
    clock = clock_of(zone)
    needs_tenant = name is not None or order_by == "change"
    wanted = filter_of(tenant, given, clock=clock, needs_tenant=needs_tenant)

    async def do(session: Session) -> int:
        found = await find_timers(session, state.upper(), wanted, name=name, order_by=order_by, size=limit, page=page)
        shown, rows = {"timers": found.timers, "next_page": found.next}, [_row(it, clock) for it in found.timers]
        end = "paused until" if state.upper() == "PAUSED" else "ended"
        columns = ["timer_key", "state", "due", end, "tenant", "target", "name", "schedule"]
        return print_list(shown, columns, rows, more=page_note(found.next), as_json=as_json)

    return with_session(do)


def show(timer_key: Key = None, name: Name = None, tenant: Tenant = DEFAULT_TENANT, as_json: Json = False) -> int:
    """Show one timer and its last records."""
    which = timer_ref_of(timer_key, name, tenant)

    async def do(session: Session) -> int:
        timer = await find_timer(session, which)
        if timer is None:
            raise UnknownTimer(which)
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
    count: Annotated[int, typer.Option("-n", min=1, max=FORESEEN_MAX, help="The limit of rows.")] = 10,
    start: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar="DATE",
            help="The moment from which the dates are computed. Default: now on this machine.",
        ),
    ] = None,
    as_json: Json = False,
) -> int:
    """Show the next dates of a schedule, with a note if a clock change moves a date; needs no database."""
    beside = clock_of(zone)
    rule = repeat_of("RULE", rule)
    with _called_rule():
        schedule = parse_schedule(rule, beside.key if beside else "UTC")
    clock = None if zone is None and "[" not in rule else schedule.zone
    now = datetime.now(UTC).replace(microsecond=0)
    created = now if start is None else moment_of("--from", start, clock)
    with _called_rule():
        first_of(schedule, created)
    previewed = list_preview(schedule, created, count=count)
    if as_json:
        print_json([{"number": f.number, "due_date": f.moment, "local": f.local, "note": f.edge} for f in previewed])
    else:
        columns = [Column("number"), Column(str(schedule.zone), no_wrap=True), Column("in UTC", no_wrap=True), Column()]
        rows = [(f.number, _spaced(f.local), _spaced(canonical_moment(f.moment)), f.edge) for f in previewed]
        print_table("", columns, rows)
    return DONE


@contextmanager
def _called_rule() -> Iterator[None]:
    """Replace the field's name by RULE in the refusal of a schedule."""
    try:
        yield
    except InvalidTimer as refusal:
        raise InvalidTimer(in_options(str(refusal), {**OPTIONS, "schedule": "RULE"}), code=refusal.code) from None


def _spaced(moment: str) -> str:
    return moment.replace("T", " ")


def _row(timer: TimerState, clock: ZoneInfo | None) -> tuple[object, ...]:
    due, ended = on_clock(timer.due_date, clock), on_clock(timer.resume_at or timer.ended_at, clock)
    return timer.timer_key, timer.state, due, ended, timer.tenant_id, timer.target, timer.name, timer.schedule


def _fields(timer: TimerState) -> list[tuple[str, object]]:
    values = {name: getattr(timer, name) for name in TimerState.__slots__}
    values["holder"] = hex_of(timer.holder)
    return [(name, value) for name, value in values.items() if value is not None]
