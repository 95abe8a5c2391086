"""The commands about deliveries that are on their way: deliveries, with show, retry and cancel."""

import json
import shlex
from typing import Annotated

import typer

from shardclock_server.cli.changed import print_changed
from shardclock_server.cli.delivery_words import fields_of_delivery
from shardclock_server.cli.lists import lists, tell_more, tell_none
from shardclock_server.cli.options import OfTenant, Reason
from shardclock_server.cli.output import DONE, NOT_DONE, Json, cell, print_json, print_records, print_table, tell
from shardclock_server.cli.session import with_session
from shardclock_server.service import deliveries as use_cases
from shardclock_server.service.deliveries import AT_ONCE_MAX, LISTED_MAX, Answer, ShownDelivery
from shardclock_server.sql.deliveries.find import DeliveryFilter, FoundDelivery
from shardclock_server.sql.session import Session
from shardclock_server.timers.model import BIGINT_MAX
from shardclock_server.timers.refusal import Refusal

ERROR_CHARS_SHOWN = 80

Key = Annotated[int, typer.Argument(metavar="TIMER_KEY", min=1, max=BIGINT_MAX, help="Of the timer that fired.")]
MaybeKey = Annotated[
    int | None,
    typer.Argument(metavar="[TIMER_KEY]", min=1, max=BIGINT_MAX, help="Of the timer that fired.", show_default=False),
]
Target = Annotated[str | None, typer.Option("--target", help="Only of this target, whichever tenant's.")]
Failing = Annotated[bool, typer.Option("--failing", help="Only those of which an attempt has failed.")]

deliveries = typer.Typer(
    help="List the deliveries that are on their way; the subcommands show, retry and cancel them.",
    invoke_without_command=True,
)


@lists(deliveries)
def list_(
    target: Target = None,
    tenant: OfTenant = None,
    failing: Failing = False,
    limit: Annotated[int, typer.Option("--limit", "-n", metavar="N", min=1, max=LISTED_MAX, help="At most N.")] = 100,
    page: Annotated[
        str | None, typer.Option("--page", metavar="TOKEN", help="Continue where the last list ended.")
    ] = None,
    as_json: Json = False,
) -> int:
    """List the deliveries that are on their way.

    By target and tenant, the soonest first. With --json: {"deliveries": [...], "next_page": TOKEN or null}.
    """
    wanted = DeliveryFilter(target, tenant, failing=failing)

    async def do(session: Session) -> int:
        found = await use_cases.page_of(session, wanted, size=limit, page=page)
        if as_json:
            print_json({"deliveries": found.deliveries, "next_page": found.next})
        elif found.deliveries:
            columns = ["timer_key", "target", "tenant", "name", "state", "attempts", "next attempt", "last error"]
            print_table("", columns, [_row(delivery) for delivery in found.deliveries])
        else:
            filtered = wanted != DeliveryFilter() or page is not None
            tell_none("deliveries", "there are no deliveries", filtered=filtered)
        if found.next is not None and not as_json:
            tell_more(f"--page {shlex.quote(found.next)}")
        return DONE

    return with_session(do)


@deliveries.command()
def show(timer_key: Key, as_json: Json = False) -> int:
    """Show what became of a timer's delivery, why its attempts failed, and what happened to the timer last."""

    async def do(session: Session) -> int:
        found = await use_cases.show(session, timer_key)
        if found is None:
            tell(f"shardclock: timer {timer_key} has no delivery")
            return NOT_DONE
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
    every: Annotated[
        bool, typer.Option("--all", help="All that wait for an attempt, or with filters all of these.")
    ] = False,
    limit: Annotated[
        int, typer.Option("--limit", "-n", metavar="N", min=1, max=AT_ONCE_MAX, help="Of many: at most N.")
    ] = AT_ONCE_MAX,
    yes: Annotated[bool, typer.Option("--yes", help="Of many: do it, instead of saying so.")] = False,
    as_json: Json = False,
) -> int:
    """Make the next attempt of a delivery due now, or of all that wait for one: of a target, or with --all of any."""
    if (timer_key is None) == (target is None and not every):
        raise Refusal("say either one delivery, by its timer's key, or many, by --target or --all")
    if timer_key is not None and (tenant is not None or failing):
        raise Refusal("--tenant and --failing go with --target or --all; a key is enough to name one delivery")

    async def do(session: Session) -> int:
        if timer_key is not None:
            return _print_answer(await use_cases.retry(session, timer_key), as_json=as_json)
        wanted = DeliveryFilter(target, tenant, failing=failing)
        changed = await use_cases.retry_many(session, wanted, limit=limit, dry_run=not yes)
        return print_changed(changed, {"timer_keys": changed.keys}, yes=yes, as_json=as_json)

    return with_session(do)


@deliveries.command()
def cancel(timer_key: Key, reason: Reason = None, as_json: Json = False) -> int:
    """End a delivery that no worker has in hand: its target is not called any more."""

    async def do(session: Session) -> int:
        return _print_answer(await use_cases.cancel(session, timer_key, reason=reason), as_json=as_json)

    return with_session(do)


def _print_answer(answer: Answer, *, as_json: bool) -> int:
    if as_json:
        print_json({"state": answer.state})
    else:
        tell(f"{'' if answer.done else 'shardclock: '}{answer.sentence}{_way_out(answer)}")
    return DONE if answer.done else NOT_DONE


def _way_out(answer: Answer) -> str:
    return "; `shardclock dead-letters` redrives or discards it" if answer.state == "DEAD" else ""


def _print_shown(found: ShownDelivery) -> None:
    if found.delivery is not None:
        print_table("", ["field", "value"], fields_of_delivery(found.delivery, without="failures"))
        failures = json.loads(found.delivery.failures or "[]")
        if failures:
            rows = [(it["attempt"], it["at"], it["worker"], it["reason"]) for it in failures]
            print_table("\nfailed attempts", ["attempt", "at", "worker", "reason"], rows)
    print_records(found.records)


def _row(it: FoundDelivery) -> tuple[object, ...]:
    state = "in hand" if it.state == "IN_HAND" else "waiting"
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
