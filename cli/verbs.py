"""The commands that cancel, pause, resume and run pending timers."""

import secrets
from dataclasses import replace
from functools import partial
from typing import Annotated

import typer

from shardclock.api.changes import CANCELED, PAUSED, RESUMED, RUN
from shardclock_server.cli.bulk import CHANGEABLE, Wording, change_many, states_of
from shardclock_server.cli.options import (
    DEFAULT_TENANT,
    All,
    Key,
    MaybeTenant,
    MissedByPause,
    Name,
    Reason,
    State,
    Tenant,
    Until,
    Yes,
    pause_of,
    timer_ref_of,
)
from shardclock_server.cli.output import Json
from shardclock_server.cli.single import change_one
from shardclock_server.cli.timer_filter import NO_FILTER, filter_of, one_or_many, takes_filter
from shardclock_server.service import pauses
from shardclock_server.service.bulk_change import PAGE_RETRY, ChangeKind
from shardclock_server.service.filters import GivenFilter
from shardclock_server.service.operation_verbs import CANCEL, PAUSE, RESUME
from shardclock_server.sql.clients.search import TimerFilter
from shardclock_server.sql.clients.verbs import TimerRef, cancel_process_instance, cancel_timer, resume_timer, run_timer
from shardclock_server.sql.session import Session, StoreUnavailable
from shardclock_server.timers.schedule import missed_choice_of


@takes_filter
def cancel(
    timer_key: Key = None,
    name: Name = None,
    tenant: MaybeTenant = None,
    all_timers: All = False,
    state: State = None,
    given: GivenFilter = NO_FILTER,
    yes: Yes = False,
    reason: Reason = None,
    as_json: Json = False,
) -> int:
    """Cancel a pending timer, or many; fail if a timer has fired already."""
    wanted = filter_of(tenant, given)
    which = one_or_many(timer_key, name, wanted, every=all_timers, state=state)
    if isinstance(which, TimerRef):
        return change_one(which, partial(cancel_timer, reason=reason), CANCELED, as_json=as_json)
    change = ChangeKind(CANCEL, states_of(state, CHANGEABLE), {"reason": reason})
    key = which.process_instance_key
    if key is not None and state is None and which == TimerFilter(process_instance_key=key):
        # Cancel all timers with one statement. A separate search before the cancellation could miss an occurrence that
        # is created between the search and the cancellation.
        change = replace(change, whole=partial(cancel_process_instance, process_instance_key=key, reason=reason))
    return change_many(which, change, Wording("cancel", "canceled"), yes=yes, as_json=as_json)


@takes_filter
def pause(
    timer_key: Key = None,
    name: Name = None,
    tenant: MaybeTenant = None,
    all_timers: All = False,
    state: State = None,
    given: GivenFilter = NO_FILTER,
    yes: Yes = False,
    reason: Reason = None,
    until: Until = None,
    missed: MissedByPause = None,
    as_json: Json = False,
) -> int:
    """Pause a timer, or many timers, until a resume or until a moment."""
    wanted, asked = filter_of(tenant, given), pause_of(until, missed, reason)
    which = one_or_many(timer_key, name, wanted, every=all_timers, state=state)
    if isinstance(which, TimerRef):
        return change_one(which, partial(pauses.pause, asked=asked), PAUSED, as_json=as_json)
    states = states_of(state, CHANGEABLE if state else ("PENDING",))
    change = ChangeKind(PAUSE, states, pause=asked)
    return change_many(which, change, Wording("pause", "paused"), yes=yes, as_json=as_json)


@takes_filter
def resume(
    timer_key: Key = None,
    name: Name = None,
    tenant: MaybeTenant = None,
    all_timers: All = False,
    state: State = None,
    given: GivenFilter = NO_FILTER,
    yes: Yes = False,
    missed: MissedByPause = None,
    as_json: Json = False,
) -> int:
    """Resume a paused timer, or many; a timer with a due date during the pause is due immediately."""
    wanted, choice = filter_of(tenant, given), missed_choice_of(missed, called="--missed")
    which = one_or_many(timer_key, name, wanted, every=all_timers, state=state)
    if isinstance(which, TimerRef):
        return change_one(which, partial(resume_timer, missed=choice), RESUMED, as_json=as_json)
    change = ChangeKind(RESUME, states_of(state, ("PAUSED",)), {"missed": choice.value})
    return change_many(which, change, Wording("resume", "resumed"), yes=yes, as_json=as_json)


def run_now(
    timer_key: Key = None,
    name: Name = None,
    tenant: Tenant = DEFAULT_TENANT,
    operation: Annotated[
        str | None,
        typer.Option("--operation", help="A name for this run; a repeated command with this name runs no timer again."),
    ] = None,
    as_json: Json = False,
) -> int:
    """Make a pending timer due now; a schedule fires one extra time, and keeps its dates."""
    once = partial(_run_once, operation=operation or secrets.token_hex(8))
    return change_one(timer_ref_of(timer_key, name, tenant), once, RUN, as_json=as_json)


async def _run_once(session: Session, which: TimerRef, operation: str) -> str:
    """Run a timer; after a lost answer, repeat the request, because the operation's name prevents a second run."""
    try:
        state, _ = await PAGE_RETRY.run(partial(run_timer, session, which, operation=operation))
    except StoreUnavailable as error:
        raise StoreUnavailable(
            f"{error}; repeat the command with --operation {operation}, so that the timer runs at most once"
        ) from error
    return state
