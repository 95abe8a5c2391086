"""The commands about events for operators: list, add, remove and test subscriptions."""

from typing import Annotated
from urllib.parse import urlsplit

import typer

from shardclock_server.cli.endpoints import endpoint_rules, print_secret
from shardclock_server.cli.file_text import read_text
from shardclock_server.cli.lists import full_note, lists, none_note, print_list
from shardclock_server.cli.options import DEFAULT_TENANT, OfTenant, Tenant, WholeUrls, limit_option
from shardclock_server.cli.output import Json, print_done
from shardclock_server.cli.session import with_session
from shardclock_server.service import endpoints as of_endpoints
from shardclock_server.service import notify as use_cases
from shardclock_server.service.notify import FAILURES_MAX, FAILURES_MIN
from shardclock_server.sql.endpoints.endpoints import EndpointName, StoredEndpoint
from shardclock_server.sql.notify.events import EVENT_KINDS
from shardclock_server.sql.notify.subscriptions import FoundSubscription, find_subscriptions
from shardclock_server.sql.session import Session
from shardclock_server.timers.refusal import Refusal, shortened

SCHEMES = ("http://", "https://")
Name = Annotated[str, typer.Argument(metavar="NAME", help="The endpoint's name.")]

notify = typer.Typer(
    help="List the endpoints that get events for operators; the subcommands add, remove and test them.",
    invoke_without_command=True,
)


@lists(notify)
def list_(
    tenant: OfTenant = None,
    limit: Annotated[int, limit_option()] = 100,
    urls: WholeUrls = False,
    as_json: Json = False,
) -> int:
    """List the endpoints that get events for operators."""

    async def do(session: Session) -> int:
        found = await find_subscriptions(session, tenant_id=tenant, whole_urls=urls, limit=limit)
        columns = ["tenant", "endpoint", "url", "kinds", "state", "last sent", "waiting"]
        of_all = "no endpoint gets events; add an endpoint with `shardclock notify add https://… --on delivery.dead`"
        none, more = none_note("endpoints", of_all, filtered=tenant is not None), full_note(found, limit)
        return print_list(
            {"endpoints": found}, columns, [_row(it) for it in found], none=none, more=more, as_json=as_json
        )

    return with_session(do)


@notify.command()
def add(
    where: Annotated[
        str,
        typer.Argument(
            metavar="URL",
            help="The URL of a new endpoint, @FILE, or - for stdin; or the name of an existing endpoint.",
        ),
    ],
    on: Annotated[
        str,
        typer.Option("--on", metavar="KINDS", help=f"Kinds of events, separated by commas: {', '.join(EVENT_KINDS)}."),
    ],
    name: Annotated[
        str | None, typer.Option("--name", help="The name of a new endpoint. Default: the host of the URL.")
    ] = None,
    failures: Annotated[
        int,
        typer.Option(
            "--failures",
            min=1,
            max=FAILURES_MAX,
            help="For job.failed: the number of failed runs in a row that causes the first event.",
        ),
    ] = FAILURES_MIN,
    text_only: Annotated[
        bool,
        typer.Option("--text-only", help="Send only the text, for a receiver that refuses other fields (Google Chat)."),
    ] = False,
    tenant: Tenant = DEFAULT_TENANT,
    as_json: Json = False,
) -> int:
    """Send events of these kinds to a new or an existing endpoint; print the secret of a new endpoint once."""
    key, new = _endpoint_of(tenant, read_text("URL", where), name)
    kinds = [kind.strip() for kind in on.split(",") if kind.strip()]
    wanted = use_cases.new_subscription(key, kinds, failures_min=failures, text_only=text_only)

    async def do(session: Session) -> int:
        async with session.transaction():
            added = None if new is None else await of_endpoints.add(session, new)
            done = await use_cases.subscribe(session, wanted)
        if added is not None:
            return print_secret(done.sentence, added.verifier, as_json=as_json)
        return print_done(done.sentence, {"message": done.sentence, "done": True, "secret": None}, as_json=as_json)

    return with_session(do)


def _endpoint_of(tenant: str, where: str, name: str | None) -> tuple[EndpointName, StoredEndpoint | None]:
    """Return an endpoint's name; for a URL, also return a new endpoint, named `name` or by the URL's host."""
    if where.lower().startswith(SCHEMES):
        key = EndpointName(tenant, name or urlsplit(where).hostname or "")
        secret = of_endpoints.generate_secret(asymmetric=False)
        rules = endpoint_rules()
        return key, of_endpoints.new_endpoint(key, where, headers={}, secret=secret, policy={}, rules=rules)
    if name is not None:
        raise Refusal(
            f"--name {shortened(name)} is for the URL of a new endpoint, and {shortened(where)} is a name:"
            " remove --name, or give a URL"
        )
    return EndpointName(tenant, where), None


@notify.command()
def remove(name: Name, tenant: Tenant = DEFAULT_TENANT, as_json: Json = False) -> int:
    """Stop the events for an endpoint; the endpoint itself is kept."""

    async def do(session: Session) -> int:
        done = await use_cases.unsubscribe(session, EndpointName(tenant, name))
        return print_done(done.sentence, as_json=as_json)

    return with_session(do)


@notify.command(name="test")
def try_(name: Name, tenant: Tenant = DEFAULT_TENANT, as_json: Json = False) -> int:
    """Send one test event from this machine, and print the answer; workers send the events from their machines."""
    rules = endpoint_rules()

    async def do(session: Session) -> int:
        prepared = await use_cases.prepare_test(session, EndpointName(tenant, name), rules=rules)
        tried = await use_cases.send_test_event(prepared, rules=rules)
        await of_endpoints.keep_test(session, tried)
        shown = {"delivered": tried.delivered, "ms": round(tried.duration_s * 1000), "answer": tried.answer}
        message = f"webhook:{name}: {tried.answer}; this machine sent the test, and workers send the events"
        return print_done(message, shown, done=tried.delivered, as_json=as_json)

    return with_session(do)


def _row(it: FoundSubscription) -> tuple[object, ...]:
    state = "enabled" if it.disabled_at is None else f"disabled: {it.disabled_why}"
    return it.tenant_id, it.endpoint, it.url, ", ".join(it.kinds), state, it.last_sent_at, it.waiting
