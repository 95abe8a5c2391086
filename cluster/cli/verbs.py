"""The commands that end, hold and start pending timers: cancel, pause, resume, run-now."""

from dataclasses import replace
from functools import partial

from cluster.cli.many import Change, change_many
from cluster.cli.one import Answers, change_one
from cluster.cli.options import (
    DEFAULT_TENANT,
    All,
    DueBefore,
    DueFrom,
    Key,
    MaybeTenant,
    Name,
    NamePrefix,
    ProcessInstance,
    Reason,
    Tenant,
    Yes,
    filter_of,
    one_or_many,
    which_of,
)
from cluster.cli.output import Json
from sql.history import Filter
from sql.verbs import (
    Which,
    cancel_process_instance,
    cancel_timer,
    cancel_timers,
    pause_timer,
    pause_timers,
    resume_timer,
    resume_timers,
    run_timer,
)

CANCELED = Answers({"CANCELED": "CANCELED"})
PAUSED = Answers({"PAUSED": "PAUSED"})
RESUMED = Answers({"PENDING": "PENDING"})
RUN = Answers(
    {"RESCHEDULED": "due now", "PENDING": "due already"}, advice={"PAUSED": "is paused: resume it first, then run it"}
)


def cancel(
    timer_key: Key = None,
    name: Name = None,
    tenant: MaybeTenant = None,
    all_timers: All = False,
    name_prefix: NamePrefix = None,
    due_from: DueFrom = None,
    due_before: DueBefore = None,
    process_instance: ProcessInstance = None,
    yes: Yes = False,
    reason: Reason = None,
    as_json: Json = False,
) -> int:
    """Cancel a pending timer, or many; says so if it has fired already."""
    wanted = filter_of(tenant, name_prefix, due_from, due_before, process_instance)
    target = one_or_many(timer_key, name, wanted, every=all_timers)
    if isinstance(target, Which):
        return change_one(target, partial(cancel_timer, reason=reason), CANCELED, as_json=as_json)
    change = Change("cancel", "canceled", ("PENDING", "PAUSED"), partial(cancel_timers, reason=reason))
    key = target.process_instance_key
    if key is not None and target == Filter(process_instance_key=key):
        # Catches the next occurrence of what fires while we look.
        change = replace(change, whole=partial(cancel_process_instance, process_instance_key=key, reason=reason))
    return change_many(target, change, yes=yes, as_json=as_json)


def pause(
    timer_key: Key = None,
    name: Name = None,
    tenant: MaybeTenant = None,
    all_timers: All = False,
    name_prefix: NamePrefix = None,
    due_from: DueFrom = None,
    due_before: DueBefore = None,
    process_instance: ProcessInstance = None,
    yes: Yes = False,
    reason: Reason = None,
    as_json: Json = False,
) -> int:
    """Keep a pending timer, or many, from firing until resumed."""
    wanted = filter_of(tenant, name_prefix, due_from, due_before, process_instance)
    target = one_or_many(timer_key, name, wanted, every=all_timers)
    if isinstance(target, Which):
        return change_one(target, partial(pause_timer, reason=reason), PAUSED, as_json=as_json)
    change = Change("pause", "paused", ("PENDING",), partial(pause_timers, reason=reason))
    return change_many(target, change, yes=yes, as_json=as_json)


def resume(
    timer_key: Key = None,
    name: Name = None,
    tenant: MaybeTenant = None,
    all_timers: All = False,
    name_prefix: NamePrefix = None,
    due_from: DueFrom = None,
    due_before: DueBefore = None,
    process_instance: ProcessInstance = None,
    yes: Yes = False,
    as_json: Json = False,
) -> int:
    """Let a paused timer go on, or many; what fell due meanwhile is due at once."""
    wanted = filter_of(tenant, name_prefix, due_from, due_before, process_instance)
    target = one_or_many(timer_key, name, wanted, every=all_timers)
    if isinstance(target, Which):
        return change_one(target, resume_timer, RESUMED, as_json=as_json)
    return change_many(target, Change("resume", "resumed", ("PAUSED",), resume_timers), yes=yes, as_json=as_json)


def run_now(timer_key: Key = None, name: Name = None, tenant: Tenant = DEFAULT_TENANT, as_json: Json = False) -> int:
    """Make a pending timer due now; a schedule runs once more, and keeps its dates."""
    return change_one(which_of(timer_key, name, tenant), run_timer, RUN, as_json=as_json)
