"""The commands about schedules: list schedules with their last firings, show the firings of one schedule."""

from dataclasses import asdict, replace
from typing import Annotated

import typer

from shardclock_server.cli.job_output import length_of
from shardclock_server.cli.lists import lists, none_note, page_note, print_list
from shardclock_server.cli.options import DEFAULT_TENANT, Page, Tenant, limit_option
from shardclock_server.cli.output import DONE, Json, print_json, print_table
from shardclock_server.cli.session import with_session
from shardclock_server.cli.timer_filter import NO_FILTER, filter_of, takes_filter
from shardclock_server.service.filters import GivenFilter
from shardclock_server.service.schedules import SCHEDULES_MAX, ScheduleState, with_firings
from shardclock_server.service.single_change import UnknownTimer
from shardclock_server.sql.clients.history import find_timer
from shardclock_server.sql.clients.search import OPEN_STATES, find_timers
from shardclock_server.sql.clients.verbs import TimerRef
from shardclock_server.sql.session import Session
from shardclock_server.timers.refusal import Refusal, unknown

COLUMNS = ("name", "state", "schedule", "zone", "next", "last", "late", "skipped")

schedules = typer.Typer(
    help="List schedules with their last firings, or show one schedule.", invoke_without_command=True
)


@lists(schedules)
@takes_filter
def list_(
    state: Annotated[str, typer.Option("--state", help=f"{' or '.join(OPEN_STATES)}.")] = "pending",
    tenant: Tenant = DEFAULT_TENANT,
    given: GivenFilter = NO_FILTER,
    order_by: Annotated[
        str | None,
        typer.Option(
            "--order-by",
            metavar="ORDER",
            help="The order: `due` by due date, `change` by the last change, newest first.",
        ),
    ] = None,
    limit: Annotated[int, limit_option(SCHEDULES_MAX)] = 20,
    page: Page = None,
    as_json: Json = False,
) -> int:
    """List pending or paused schedules of a tenant, each with its last firing and the number of skipped occurrences.

    With --json: {"schedules": [...], "next_page": TOKEN or null}, dates in UTC.
    """
    if state.lower() not in OPEN_STATES:
        raise Refusal(f"--state {unknown(state, OPEN_STATES)}")
    wanted = replace(filter_of(tenant, given), only_schedules=True)

    async def do(session: Session) -> int:
        found = await find_timers(session, state.upper(), wanted, order_by=order_by, size=limit, page=page)
        listed = await with_firings(session, tenant, found.timers)
        shown = {"schedules": [_json_of(it) for it in listed], "next_page": found.next}
        filtered = given != NO_FILTER or state.lower() != OPEN_STATES[0]
        none, more = none_note("schedules", "there are no schedules", filtered=filtered), page_note(found.next)
        return print_list(shown, COLUMNS, [_row(it) for it in listed], none=none, more=more, as_json=as_json)

    return with_session(do)


@schedules.command()
def show(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The schedule's name.")],
    tenant: Tenant = DEFAULT_TENANT,
    as_json: Json = False,
) -> int:
    """Show a pending or paused schedule and its last 30 firings, the newest first."""
    which = TimerRef(None, name, tenant)

    async def do(session: Session) -> int:
        timer = await find_timer(session, which)
        if timer is None or timer.schedule is None or timer.ended_at is not None:
            raise UnknownTimer(which)
        (schedule,) = await with_firings(session, tenant, [timer])
        if as_json:
            print_json(_json_of(schedule))
            return DONE
        print_table("", COLUMNS, [_row(schedule)])
        rows = [
            (it.recorded_at, it.intent, it.due_date, _late(it.late_s), it.skipped or None) for it in schedule.firings
        ]
        print_table("\nfirings", ["recorded", "intent", "due", "late", "skipped"], rows)
        return DONE

    return with_session(do)


def _row(schedule: ScheduleState) -> tuple[object, ...]:
    timer, last = schedule.timer, schedule.last
    fired = (last.recorded_at, _late(last.late_s)) if last else (None, None)
    return timer.name, timer.state, timer.schedule, timer.zone, timer.due_date, *fired, schedule.skipped


def _late(late_s: float | None) -> str | None:
    return None if late_s is None else length_of(late_s)


def _json_of(schedule: ScheduleState) -> dict[str, object]:
    last = schedule.last
    return {**asdict(schedule.timer), "last": last, "skipped": schedule.skipped, "firings": list(schedule.firings)}
