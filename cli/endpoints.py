"""The commands about endpoints: list them, add, change, test, rotate, enable, disable and remove one."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Annotated

import typer

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
from shardclock_server.cli.lists import lists, tell_if_full, tell_none
from shardclock_server.cli.options import DEFAULT_TENANT, OfTenant, Tenant
from shardclock_server.cli.output import DONE, NOT_DONE, Json, print_json, print_table, say, tell
from shardclock_server.cli.session import with_session
from shardclock_server.cluster.settings import load_settings
from shardclock_server.service import endpoints as use_cases
from shardclock_server.service.endpoints import (
    Done,
    EndpointChange,
    NewSecret,
    StillNamed,
    TooManySecrets,
    UnknownEndpoint,
)
from shardclock_server.sql.endpoints.endpoints import WEBHOOK, EndpointName, ListedEndpoint, list_endpoints
from shardclock_server.sql.session import Session
from shardclock_server.timers.refusal import Refusal, shortened
from shardclock_server.webhooks.endpoint import EndpointRules

Name = Annotated[str, typer.Argument(metavar="NAME", help="Its name; timers have the target webhook:NAME.")]
Url = Annotated[str, typer.Option("--url", help="Where webhooks are sent: https://…")]
Yes = Annotated[bool, typer.Option("--yes", help="Do it, even if pending timers name it.")]
Asymmetric = Annotated[
    bool, typer.Option("--asymmetric", help="Sign with a key pair (v1a): the receiver gets only the public key.")
]
endpoints = typer.Typer(
    help="List the endpoints that webhooks are sent to; the subcommands add, test and change them.",
    invoke_without_command=True,
)


@lists(endpoints)
def list_(
    tenant: OfTenant = None,
    limit: Annotated[int, typer.Option("--limit", "-n", metavar="N", min=1, help="At most N.")] = 100,
    as_json: Json = False,
) -> int:
    """List the endpoints that webhooks are sent to."""

    async def do(session: Session) -> int:
        found = await list_endpoints(session, tenant_id=tenant, limit=limit)
        if as_json:
            print_json(found)
        elif found:
            print_table("", ["tenant", "target", "url", "state", "on the way"], [_row(it) for it in found])
            tell_if_full(found, limit)
        else:
            none = "there are no endpoints; `shardclock endpoints add NAME --url https://…` adds one"
            tell_none("endpoints", none, filtered=tenant is not None)
        return DONE

    return with_session(do)


@endpoints.command()
def add(
    name: Name,
    url: Url,
    headers: Annotated[
        list[str] | None,
        typer.Option(
            "--header", metavar="'NAME: VALUE'", help="Sent with each; or @FILE with one a line; may be repeated."
        ),
    ] = None,
    secret: Annotated[
        str | None,
        typer.Option("--secret", help="What they are signed with: @FILE, or - for stdin; if not given, one is drawn."),
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
    """Add an endpoint, and print what its receiver verifies webhooks with, once."""
    if secret is not None and asymmetric:
        raise Refusal("--secret brings its own kind: leave --asymmetric out")
    wanted = use_cases.new_endpoint(
        EndpointName(tenant, name),
        url,
        headers=_headers(headers or ()),
        secret=use_cases.drawn_secret(asymmetric=asymmetric) if secret is None else read_text("--secret", secret),
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
        rules=_rules(),
    )
    return _run(lambda session: use_cases.add(session, wanted), as_json=as_json)


@endpoints.command()
def change(
    name: Name,
    url: Annotated[str | None, typer.Option("--url", help="Where webhooks are sent: https://…")] = None,
    headers: Annotated[
        list[str] | None,
        typer.Option(
            "--header",
            metavar="'NAME: VALUE'",
            help="Sent with each, instead of all that it had; or @FILE with one a line; may be repeated.",
        ),
    ] = None,
    no_headers: Annotated[bool, typer.Option("--no-headers", help="Send no headers of its own any more.")] = False,
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
    """Change an endpoint; what is not named stays. It counts for what is on its way, too, which is signed as before."""
    if headers and no_headers:
        raise Refusal("--header and --no-headers exclude each other; leave one of them out")
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
        raise Refusal(f"say what is to change: give --url, --header, {', '.join(OF_POLICY[:-1])} or {OF_POLICY[-1]}")
    key, rules = EndpointName(tenant, name), _rules()
    return _run(lambda session: use_cases.change(session, key, wanted, rules=rules), as_json=as_json)


@endpoints.command()
def rotate(
    name: Name,
    end: Annotated[bool, typer.Option("--end", help="Drop all secrets but the newest.")] = False,
    asymmetric: Asymmetric = False,
    tenant: Tenant = DEFAULT_TENANT,
    as_json: Json = False,
) -> int:
    """Add a secret and print it, once. Until --end, webhooks are signed with the old ones, too."""
    key = EndpointName(tenant, name)
    if end:
        return _run(lambda session: use_cases.end_rotation(session, key), as_json=as_json)
    return _run(lambda session: use_cases.rotate(session, key, asymmetric=asymmetric), as_json=as_json)


@endpoints.command(name="test")
def try_(name: Name, tenant: Tenant = DEFAULT_TENANT, as_json: Json = False) -> int:
    """Send one webhook from this machine now, and print what the endpoint answers."""
    key, rules = EndpointName(tenant, name), _rules()

    async def do(session: Session) -> int:
        endpoint = await use_cases.find_open(session, key, rules=rules)
        tried = await use_cases.try_out(endpoint, key, rules=rules)
        ms = round(tried.duration_s * 1000)
        if as_json:
            print_json({"delivered": tried.delivered, "ms": ms, "answer": tried.answer})
        else:
            took = "" if tried.answer.startswith("timed out ") else f", after {ms} ms"  # that says it itself
            tell(f"{key.target}: {tried.answer}{took}")
        return DONE if tried.delivered else NOT_DONE

    return _with_session(do)


@endpoints.command()
def enable(name: Name, tenant: Tenant = DEFAULT_TENANT, as_json: Json = False) -> int:
    """Send to an endpoint again that was disabled, or answered 410."""
    key = EndpointName(tenant, name)
    return _run(lambda session: use_cases.enable(session, key), as_json=as_json)


@endpoints.command()
def disable(
    name: Name,
    reason: Annotated[str, typer.Option("--reason", help="Why, for whoever finds it.")] = "by hand",
    yes: Yes = False,
    tenant: Tenant = DEFAULT_TENANT,
    as_json: Json = False,
) -> int:
    """Send nothing more to an endpoint: its deliveries become dead letters, and no new timer may name it."""
    key = EndpointName(tenant, name)
    return _run(
        lambda session: use_cases.disable(session, key, why=reason, though_named=yes), verb="disable", as_json=as_json
    )


@endpoints.command()
def remove(name: Name, yes: Yes = False, tenant: Tenant = DEFAULT_TENANT, as_json: Json = False) -> int:
    """Remove an endpoint: deliveries on their way to it become dead letters."""
    key = EndpointName(tenant, name)
    return _run(lambda session: use_cases.remove(session, key, though_named=yes), verb="remove", as_json=as_json)


def _rules() -> EndpointRules:
    settings = load_settings().worker
    return EndpointRules(settings.webhook_http, settings.networks)


def _run(
    use_case: Callable[[Session], Awaitable[Done | NewSecret | StillNamed]], *, verb: str = "", as_json: bool
) -> int:
    """Do what was asked, and print the answer; `verb` is what --yes would do though timers name the endpoint."""

    async def do(session: Session) -> int:
        match await use_case(session):
            case Done(sentence):
                _print(sentence, {"done": sentence}, as_json=as_json)
                return DONE
            case NewSecret(sentence, verifier):
                shown_once = f"{sentence}; its receiver verifies webhooks with this, which is not shown again:"
                _print(shown_once, {"done": sentence, "secret": verifier}, as_json=as_json)
                if not as_json:
                    say(verifier)
                return DONE
            case StillNamed(_, timers) as named:
                way_out = f"{named.sentence}; add --yes to {verb} it"
                _print(way_out, {"done": None, "pending_timers": timers}, as_json=as_json)
                return NOT_DONE

    return _with_session(do)


def _print(sentence: str, fields: dict[str, object], *, as_json: bool) -> None:
    if as_json:
        print_json(fields)
    else:
        tell(sentence)


def _with_session(work: Callable[[Session], Awaitable[int]]) -> int:
    """Do a command's work; add the command line's way out to a refusal.

    errors:  Refusal  the use case's sentence, and which command or option helps
    """
    try:
        return with_session(work)
    except UnknownEndpoint as refusal:
        raise Refusal(f"{refusal}: `shardclock endpoints` lists them") from None
    except TooManySecrets as refusal:
        raise Refusal(f"{refusal}, by --end") from None


def _headers(texts: Sequence[str]) -> dict[str, str]:
    headers: dict[str, str] = {}
    for text in (line for given in texts for line in _lines(given)):
        name, colon, value = text.partition(":")
        if not colon:
            # Not even the name is shown: what stands here may be a token alone.
            raise Refusal("--header has no colon; write it like 'authorization: Bearer …'")
        if name.strip().lower() in (known.lower() for known in headers):
            raise Refusal(f"--header {shortened(name)} stands there twice; write it once")
        headers[name.strip()] = value.strip()
    return headers


def _lines(text: str) -> list[str]:
    if not is_file(text):
        return [text]
    return [line for line in read_text("--header", text).split("\n") if line.strip()]


def _row(it: ListedEndpoint) -> tuple[object, ...]:
    state = "enabled" if it.disabled_at is None else f"disabled: {it.disabled_why}"
    return it.tenant_id, f"{WEBHOOK}{it.name}", it.url, state, it.waiting
