"""The commands about deliveries: list, show, retry, cancel."""

import json
from typing import Annotated

import typer

from shardclock.api.refusals.deliveries import UNKNOWN_DELIVERY
from shardclock_server.cli.changed import print_changed
from shardclock_server.cli.delivery_fields import fields_of_delivery
from shardclock_server.cli.lists import lists, none_note, page_note, print_list
from shardclock_server.cli.operator import note_changed, operator
from shardclock_server.cli.options import OfTenant, Page, Reason, key_argument, limit_option
from shardclock_server.cli.output import DONE, Json, cell, print_done, print_json, print_records, print_table
from shardclock_server.cli.recording import record_done
from shardclock_server.cli.session import with_session
from shardclock_server.service import deliveries as use_cases
from shardclock_server.service.deliveries import AT_ONCE_MAX, LISTED_MAX, ShownDelivery
from shardclock_server.sql.deliveries.find import DeliveryFilter, FoundDelivery
from shardclock_server.sql.session import Session
from shardclock_server.timers.refusal import Refusal

ERROR_CHARS_SHOWN = 80

Key = Annotated[int, key_argument("TIMER_KEY", "The key of the timer that fired.")]
MaybeKey = Annotated[
    int | None,
    key_argument("[TIMER_KEY]", "The key of the timer that fired."),
]
Target = Annotated[str | None, typer.Option("--target", help="Only deliveries to this target, of any tenant.")]
Failing = Annotated[bool, typer.Option("--failing", help="Only deliveries with at least one failed attempt.")]
ReasonLine = Annotated[
    str | None,
    typer.Option(
        "--reason-line",
        metavar="TEXT",
        help="Only deliveries with this first line of the last failure's reason; # stands for any number or id.",
    ),
]

deliveries = typer.Typer(
    help="List the pending deliveries; the subcommands show, retry and cancel one delivery.",
    invoke_without_command=True,
)


@lists(deliveries)
def list_(
    target: Target = None,
    tenant: OfTenant = None,
    failing: Failing = False,
    reason_line: ReasonLine = None,
    limit: Annotated[int, limit_option(LISTED_MAX)] = 100,
    page: Page = None,
    as_json: Json = False,
) -> int:
    """List the pending deliveries.

    Deliveries are sorted by target, tenant and due date. With --json: {"deliveries": [...], "next_page": TOKEN or
    null}.
    """
    wanted = DeliveryFilter(target, tenant, failing=failing, reason_line=reason_line)

    async def do(session: Session) -> int:
        found = await use_cases.page_of(session, wanted, size=limit, page=page)
        shown = {"deliveries": found.deliveries, "next_page": found.next}
        columns = ["timer_key", "target", "tenant", "name", "state", "attempts", "next attempt", "last error"]
        rows = [_row(delivery) for delivery in found.deliveries]
        filtered = wanted != DeliveryFilter() or page is not None
        none = none_note("deliveries", "there are no deliveries", filtered=filtered)
        return print_list(shown, columns, rows, none=none, more=page_note(found.next), as_json=as_json)

    return with_session(do)


@deliveries.command()
def show(timer_key: Key, as_json: Json = False) -> int:
    """Show a timer's delivery with its failed attempts, and the timer's last records."""

    async def do(session: Session) -> int:
        found = await use_cases.show(session, timer_key)
        if found is None:
            raise Refusal.of(UNKNOWN_DELIVERY, timer_key=timer_key)
        if as_json:
            print_json({"delivery": found.delivery, "records": found.records})
        else:
            _print_shown(found)
        return DONE

    return with_session(do)


@deliveries.command()
def retry(
    timer_key: MaybeKey = None,
    target: Target = None,
    tenant: OfTenant = None,
    failing: Failing = False,
    reason_line: ReasonLine = None,
    every: Annotated[bool, typer.Option("--all", help="All delayed deliveries that match the filters.")] = False,
    limit: Annotated[
        int,
        limit_option(AT_ONCE_MAX, "With --all: the limit of deliveries."),
    ] = AT_ONCE_MAX,
    yes: Annotated[
        bool, typer.Option("--yes", help="With --all: make the change; without --yes, only show the change.")
    ] = False,
    as_json: Json = False,
) -> int:
    """Make the next attempt of a delivery due now; --target or --all selects many delayed deliveries."""
    if (timer_key is None) == (target is None and not every):
        raise Refusal("choose either one delivery by its timer's key, or many with --target or --all")
    if timer_key is not None and (tenant is not None or failing or reason_line is not None):
        raise Refusal("--tenant, --failing and --reason-line go with --target or --all; a key names one delivery")

    async def do(session: Session) -> int:
        if timer_key is not None:
            retried = await use_cases.retry(session, timer_key)
            return print_done(retried.sentence, {"state": retried.state}, as_json=as_json)
        wanted = DeliveryFilter(target, tenant, failing=failing, reason_line=reason_line)
        changed = await use_cases.retry_many(session, wanted, limit=limit, dry_run=not yes, by=operator())
        note_changed(changed, yes=yes)
        await record_done(session)  # A change that matches no row is done, although its exit code is another.
        return print_changed(changed, {"timer_keys": changed.keys}, yes=yes, as_json=as_json)

    return with_session(do)


@deliveries.command()
def cancel(timer_key: Key, reason: Reason = None, as_json: Json = False) -> int:
    """Cancel a delivery that no worker or program has claimed, so that no worker calls its target."""

    async def do(session: Session) -> int:
        canceled = await use_cases.cancel(session, timer_key, reason=reason)
        return print_done(canceled.sentence, {"state": canceled.state}, as_json=as_json)

    return with_session(do)


def _print_shown(found: ShownDelivery) -> None:
    if found.delivery is not None:
        print_table("", ["field", "value"], fields_of_delivery(found.delivery, without="failures"))
        failures = json.loads(found.delivery.failures or "[]")
        if failures:
            rows = [(it["attempt"], it["at"], it["worker"], it["reason"]) for it in failures]
            print_table("\nfailed attempts", ["attempt", "at", "worker", "reason"], rows)
    print_records(found.records, title="records" if found.delivery is None else "\nrecords")


def _row(it: FoundDelivery) -> tuple[object, ...]:
    state = "claimed" if it.state == "IN_HAND" else "waiting"
    return (
        it.timer_key,
        it.target,
        it.tenant_id,
        it.name,
        state,
        it.failed_attempts,
        it.next_attempt_at,
        cell(it.last_error)[:ERROR_CHARS_SHOWN],
    )
