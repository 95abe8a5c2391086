"""The commands about endpoints: list, show attempts, add, change, test, rotate, enable, disable and remove."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import astuple
from typing import Annotated

import typer

from shardclock.api.refusals.tenants import UNKNOWN_ENDPOINT
from shardclock_server.cli.endpoint_policy import (
    OF_POLICY,
    Concurrency,
    ExpiresAfter,
    GiveUpAfter,
    MaxAttempts,
    NoExpiresAfter,
    NoGiveUpAfter,
    NoRate,
    Rate,
    RetryMax,
    RetryMin,
    Timeout,
    lengths,
    lifted,
    numbers,
)
from shardclock_server.cli.file_text import is_file, read_text
from shardclock_server.cli.lists import full_note, lists, none_note, print_list
from shardclock_server.cli.options import DEFAULT_TENANT, OfTenant, Tenant, WholeUrls, limit_option
from shardclock_server.cli.output import DONE, Json, print_done, print_line
from shardclock_server.cli.session import with_session
from shardclock_server.cluster.settings import load_settings
from shardclock_server.service import endpoints as use_cases
from shardclock_server.service.endpoints import EndpointChange, EndpointInUse, EndpointResult, NewSecret
from shardclock_server.sql.endpoints.attempts import find_attempts
from shardclock_server.sql.endpoints.endpoints import WEBHOOK, EndpointName, ListedEndpoint, list_endpoints
from shardclock_server.sql.session import Session
from shardclock_server.timers.refusal import Refusal, shortened
from shardclock_server.webhooks.endpoint import EndpointRules

Name = Annotated[str, typer.Argument(metavar="NAME", help="The endpoint's name; timers have the target webhook:NAME.")]
Url = Annotated[str, typer.Option("--url", help="The URL that receives webhooks: https://…")]
Yes = Annotated[
    bool, typer.Option("--yes", help="Make the change even if the endpoint is the target of pending timers.")
]
Asymmetric = Annotated[
    bool,
    typer.Option("--asymmetric", help="Sign with a key pair (v1a), so that the receiver needs only the public key."),
]
BODY_SHOWN = 60  # The table shows this many characters of an answer; --json shows the whole answer.

endpoints = typer.Typer(
    help="List the endpoints, the receivers of webhooks; the subcommands add, test and change endpoints.",
    invoke_without_command=True,
)


@lists(endpoints)
def list_(
    tenant: OfTenant = None,
    limit: Annotated[int, limit_option()] = 100,
    urls: WholeUrls = False,
    as_json: Json = False,
) -> int:
    """List the endpoints, the receivers of webhooks."""

    async def do(session: Session) -> int:
        found = await list_endpoints(session, tenant_id=tenant, whole_urls=urls, limit=limit)
        columns = ["tenant", "target", "url", "state", "on the way", "failing", "since", "accepted"]
        of_all = "there are no endpoints; `shardclock endpoints add NAME --url https://…` adds one"
        none, more = none_note("endpoints", of_all, filtered=tenant is not None), full_note(found, limit)
        return print_list(
            {"endpoints": found}, columns, [_row(it) for it in found], none=none, more=more, as_json=as_json
        )

    return with_session(do)


@endpoints.command()
def add(
    name: Name,
    url: Url,
    headers: Annotated[
        list[str] | None,
        typer.Option(
            "--header",
            metavar="'NAME: VALUE'",
            help="A header of each webhook, or @FILE with one header on each line; may be repeated.",
        ),
    ] = None,
    secret: Annotated[
        str | None,
        typer.Option("--secret", help="The secret that signs webhooks: @FILE, or - for stdin. Default: a new secret."),
    ] = None,
    asymmetric: Asymmetric = False,
    concurrency: Concurrency = None,
    rate: Rate = None,
    timeout: Timeout = None,
    max_attempts: MaxAttempts = None,
    expires_after: ExpiresAfter = None,
    give_up_after: GiveUpAfter = None,
    retry_min: RetryMin = None,
    retry_max: RetryMax = None,
    tenant: Tenant = DEFAULT_TENANT,
    as_json: Json = False,
) -> int:
    """Add an endpoint, and print once the secret or the public key with which its receiver verifies webhooks."""
    if secret is not None and asymmetric:
        raise Refusal("--secret determines the kind of signature: leave --asymmetric out")
    wanted = use_cases.new_endpoint(
        EndpointName(tenant, name),
        url,
        headers=_headers(headers or ()),
        secret=use_cases.generate_secret(asymmetric=asymmetric) if secret is None else read_text("--secret", secret),
        policy={
            **numbers(concurrency, rate, max_attempts),
            **lengths(
                timeout=timeout,
                expires_after=expires_after,
                give_up_after=give_up_after,
                retry_min=retry_min,
                retry_max=retry_max,
            ),
        },
        rules=endpoint_rules(),
    )
    return _run(lambda session: use_cases.add(session, wanted), as_json=as_json)


@endpoints.command()
def change(
    name: Name,
    url: Annotated[str | None, typer.Option("--url", help="The URL that receives webhooks: https://…")] = None,
    headers: Annotated[
        list[str] | None,
        typer.Option(
            "--header",
            metavar="'NAME: VALUE'",
            help="A header of each webhook, or @FILE with one header on each line; replaces all former headers.",
        ),
    ] = None,
    no_headers: Annotated[bool, typer.Option("--no-headers", help="Remove all headers of the endpoint.")] = False,
    concurrency: Concurrency = None,
    rate: Rate = None,
    no_rate: NoRate = False,
    timeout: Timeout = None,
    max_attempts: MaxAttempts = None,
    expires_after: ExpiresAfter = None,
    no_expires_after: NoExpiresAfter = False,
    give_up_after: GiveUpAfter = None,
    no_give_up_after: NoGiveUpAfter = False,
    retry_min: RetryMin = None,
    retry_max: RetryMax = None,
    tenant: Tenant = DEFAULT_TENANT,
    as_json: Json = False,
) -> int:
    """Change some fields of an endpoint, and keep all others. The change also applies to waiting deliveries."""
    if headers and no_headers:
        raise Refusal("--header and --no-headers exclude each other; remove one of the two")
    policy = {
        **numbers(concurrency, rate, max_attempts),
        **lengths(
            timeout=timeout,
            expires_after=expires_after,
            give_up_after=give_up_after,
            retry_min=retry_min,
            retry_max=retry_max,
        ),
        **lifted(
            rate_per_s=(rate, no_rate),
            expires_after_s=(expires_after, no_expires_after),
            give_up_after_s=(give_up_after, no_give_up_after),
        ),
    }
    wanted = EndpointChange(url, _headers(headers or ()) if headers or no_headers else None, policy)
    if wanted == EndpointChange():
        raise Refusal(f"no change is given: give --url, --header, {', '.join(OF_POLICY[:-1])} or {OF_POLICY[-1]}")
    key, rules = EndpointName(tenant, name), endpoint_rules()
    return _run(lambda session: use_cases.change(session, key, wanted, rules=rules), as_json=as_json)


@endpoints.command()
def rotate(
    name: Name,
    end: Annotated[bool, typer.Option("--end", help="Drop all secrets except the newest.")] = False,
    asymmetric: Asymmetric = False,
    tenant: Tenant = DEFAULT_TENANT,
    as_json: Json = False,
) -> int:
    """Add a secret and print it once. Until --end, the old secrets sign webhooks, too."""
    key = EndpointName(tenant, name)
    if end:
        return _run(lambda session: use_cases.end_rotation(session, key), as_json=as_json)
    return _run(lambda session: use_cases.rotate(session, key, asymmetric=asymmetric), as_json=as_json)


@endpoints.command(name="test")
def try_(name: Name, tenant: Tenant = DEFAULT_TENANT, as_json: Json = False) -> int:
    """Send one webhook from this machine now, and print the endpoint's answer."""
    key, rules = EndpointName(tenant, name), endpoint_rules()

    async def do(session: Session) -> int:
        endpoint = await use_cases.find_open(session, key, rules=rules)
        tried = await use_cases.send_test(endpoint, key, rules=rules)
        await use_cases.keep_test(session, tried)
        ms = round(tried.duration_s * 1000)
        shown = {"delivered": tried.delivered, "ms": ms, "answer": tried.answer}
        # The answer "timed out after …" already contains the duration.
        took = "" if tried.answer.startswith("timed out ") else f", after {ms} ms"
        return print_done(f"{key.target}: {tried.answer}{took}", shown, done=tried.delivered, as_json=as_json)

    return with_session(do)


@endpoints.command()
def attempts(name: Name, tenant: Tenant = DEFAULT_TENANT, as_json: Json = False) -> int:
    """List the last 20 attempts and test sends of an endpoint, the newest first, with the beginning of each answer.

    A test send has no timer.
    """
    key = EndpointName(tenant, name)

    async def do(session: Session) -> int:
        if not await list_endpoints(session, tenant_id=tenant, name=name, limit=1):
            raise Refusal.of(UNKNOWN_ENDPOINT, tenant_id=tenant, name=name)
        found = await find_attempts(session, key)
        columns = ["timer_key", "attempt", "ended", "status", "ms", "failure", "answer"]
        rows = [(*astuple(it)[:-1], it.body[:BODY_SHOWN]) for it in found]
        none = f"endpoint {key.target} has no attempts yet"
        return print_list({"attempts": found}, columns, rows, none=none, as_json=as_json)

    return with_session(do)


@endpoints.command()
def enable(name: Name, tenant: Tenant = DEFAULT_TENANT, as_json: Json = False) -> int:
    """Enable a disabled endpoint, even if a 410 answer disabled it."""
    key = EndpointName(tenant, name)
    return _run(lambda session: use_cases.enable(session, key), as_json=as_json)


@endpoints.command()
def disable(
    name: Name,
    reason: Annotated[str, typer.Option("--reason", help="The reason, which lists and the log show.")] = "by hand",
    yes: Yes = False,
    tenant: Tenant = DEFAULT_TENANT,
    as_json: Json = False,
) -> int:
    """Disable an endpoint: its deliveries become dead letters, and new timers can't name it."""
    key = EndpointName(tenant, name)
    return _run(lambda session: use_cases.disable(session, key, why=reason, force=yes), verb="disable", as_json=as_json)


@endpoints.command()
def remove(name: Name, yes: Yes = False, tenant: Tenant = DEFAULT_TENANT, as_json: Json = False) -> int:
    """Remove an endpoint; its deliveries become dead letters."""
    key = EndpointName(tenant, name)
    return _run(lambda session: use_cases.remove(session, key, force=yes), verb="remove", as_json=as_json)


def print_secret(sentence: str, verifier: str, *, as_json: bool) -> int:
    """Print the result of a change, and the secret that verifies webhooks; return the exit code."""
    told = "the endpoint's receiver verifies webhooks with the following secret, which is not shown again:"
    print_done(f"{sentence}; {told}", {"message": sentence, "done": True, "secret": verifier}, as_json=as_json)
    if not as_json:
        print_line(verifier)
    return DONE


def endpoint_rules() -> EndpointRules:
    """Return the rules for endpoints from the settings."""
    settings = load_settings().worker
    return EndpointRules(settings.webhook_http, settings.networks)


def _run(
    use_case: Callable[[Session], Awaitable[EndpointResult | NewSecret | EndpointInUse]],
    *,
    verb: str = "",
    as_json: bool,
) -> int:
    """Run a use case and print the result. `verb` needs --yes if pending timers have the endpoint as target."""

    async def do(session: Session) -> int:
        match await use_case(session):
            case EndpointResult(sentence):
                return print_done(sentence, as_json=as_json)
            case NewSecret(sentence, verifier):
                return print_secret(sentence, verifier, as_json=as_json)
            case EndpointInUse(_, timers) as named:
                message = f"{named.sentence}; add --yes to {verb} the endpoint"
                shown = {"message": message, "done": False, "pending_timers": timers}
                return print_done(message, shown, done=False, as_json=as_json)

    return with_session(do)


def _headers(texts: Sequence[str]) -> dict[str, str]:
    headers: dict[str, str] = {}
    for text in (line for given in texts for line in _lines(given)):
        name, colon, value = text.partition(":")
        if not colon:
            # Don't show the text, because a text without a colon may be a secret without a header's name.
            raise Refusal("--header has no colon; write it like 'authorization: Bearer …'")
        if name.strip().lower() in (known.lower() for known in headers):
            raise Refusal(f"--header {shortened(name)} is given twice; write it once")
        headers[name.strip()] = value.strip()
    return headers


def _lines(text: str) -> list[str]:
    if not is_file(text):
        return [text]
    return [line for line in read_text("--header", text).split("\n") if line.strip()]


def _row(it: ListedEndpoint) -> tuple[object, ...]:
    state = "enabled" if it.disabled_at is None else f"disabled: {it.disabled_why}"
    accepted = f"{it.accepted} of {it.attempts}" if it.attempts else ""
    return it.tenant_id, f"{WEBHOOK}{it.name}", it.url, state, it.waiting, it.failing, it.failing_since, accepted
