"""The commands about endpoints: list them, add, change, test, rotate, enable, disable and remove one."""

import time
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Annotated

import typer

from cli.file_text import is_file, read_text
from cli.lengths import read_length
from cli.options import DEFAULT_TENANT, Tenant
from cli.output import DONE, NOT_DONE, Json, out, print_json, print_table, tell
from cli.session import with_session
from cluster.settings import load_settings
from service.words import counted
from sql.endpoints.endpoints import (
    COUNTED_MAX,
    WEBHOOK,
    EndpointName,
    ListedEndpoint,
    StoredEndpoint,
    add_endpoint,
    count_timers_of_endpoint,
    disable_endpoint,
    enable_endpoint,
    find_endpoints,
    list_endpoints,
    remove_endpoint,
    set_secrets,
    set_url,
)
from sql.session import Session
from timers.refusal import Refusal, shortened
from webhooks.answers import Answer, Delivered
from webhooks.endpoint import EndpointRules, InvalidEndpoint, check_name
from webhooks.envelope import write_body
from webhooks.sender import Message, Sender, SenderSettings
from webhooks.signing import SECRETS_MAX, PrivateKey, check_secret, new_key_pair, new_secret
from workers.route import Route, route_of

RATE_MIN, RATE_MAX = 0.001, 100_000

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


@endpoints.callback()
def list_all(
    context: typer.Context,
    tenant: Annotated[str | None, typer.Option("--tenant", help="Only this tenant's.")] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", metavar="N", min=1, help="At most N.")] = 100,
    as_json: Json = False,
) -> int | None:
    """List the endpoints that webhooks are sent to; the subcommands add, test and change them."""
    if context.invoked_subcommand is not None:
        return None

    async def do(session: Session) -> int:
        found = await list_endpoints(session, tenant_id=tenant, limit=limit)
        if as_json:
            print_json(found)
        elif found:
            print_table("", ["tenant", "target", "url", "state", "on the way"], [_row(it) for it in found])
        else:
            tell("there are no endpoints; `shardclock endpoints add NAME --url https://…` adds one")
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
    concurrency: Annotated[
        int | None, typer.Option("--concurrency", min=1, max=1_000, help="At once from one worker; if not given, 50.")
    ] = None,
    rate: Annotated[
        float | None,
        typer.Option("--rate", min=RATE_MIN, max=RATE_MAX, metavar="PER_SECOND", help="At most, from one worker."),
    ] = None,
    timeout: Annotated[
        str | None, typer.Option("--timeout", metavar="DURATION", help="For an answer, 1s to 30s; if not given, 15s.")
    ] = None,
    max_attempts: Annotated[
        int | None, typer.Option("--max-attempts", min=1, max=100, help="If not given, 20; within three days.")
    ] = None,
    tenant: Tenant = DEFAULT_TENANT,
    as_json: Json = False,
) -> int:
    """Add an endpoint, and print what its receiver verifies webhooks with, once."""
    check_name(name)
    if secret is not None and asymmetric:
        raise Refusal("--secret brings its own kind: leave --asymmetric out")
    if rate is not None and not RATE_MIN <= rate <= RATE_MAX:  # nan is in each range, as typer compares
        raise Refusal(f"--rate {rate:g} is refused: it must be a number from {RATE_MIN:g} to {RATE_MAX:,}")
    if secret is not None:
        secret = read_text("--secret", secret)
    secret = secret or (new_key_pair() if asymmetric else new_secret())
    policy = {
        "concurrency": concurrency,
        "rate_per_s": rate,
        "timeout_s": None if timeout is None else read_length("--timeout", timeout).average().total_seconds(),
        "max_attempts": max_attempts,
    }
    said = {field: value for field, value in policy.items() if value is not None}
    wanted = StoredEndpoint(tenant, name, url, _headers(headers or ()), (secret,), said)
    if (why := _route(wanted).why_not) is not None:
        raise InvalidEndpoint(why)

    async def do(session: Session) -> int:
        if not await add_endpoint(session, wanted):
            raise Refusal(f"tenant {shortened(tenant)} has an endpoint {shortened(name)}: choose another name")
        _tell_secret(f"endpoint {wanted.key.target} added", secret, as_json=as_json)
        return DONE

    return with_session(do)


@endpoints.command()
def change(name: Name, url: Url, tenant: Tenant = DEFAULT_TENANT, as_json: Json = False) -> int:
    """Let an endpoint lead to another URL: also what is on its way is sent there, signed as before."""

    async def do(session: Session) -> int:
        found = await _found(session, EndpointName(tenant, name))
        # What is disabled is checked all the same: it may be enabled next.
        if (why := _route(replace(found, url=url, disabled_at=None)).why_not) is not None:
            raise InvalidEndpoint(why)
        changed = await set_url(session, found.key, url)
        still = f"; it is disabled: {found.disabled_why}" if found.disabled_at is not None else ""
        _answer(f"endpoint {found.key.target} leads to {url}{'' if changed else ' already'}{still}", as_json=as_json)
        return DONE if changed else NOT_DONE

    return with_session(do)


@endpoints.command()
def rotate(
    name: Name,
    end: Annotated[bool, typer.Option("--end", help="Drop all secrets but the newest.")] = False,
    asymmetric: Asymmetric = False,
    tenant: Tenant = DEFAULT_TENANT,
    as_json: Json = False,
) -> int:
    """Add a secret and print it, once. Until --end, webhooks are signed with the old ones, too."""

    async def do(session: Session) -> int:
        found = await _found(session, EndpointName(tenant, name))
        secret = new_key_pair() if asymmetric else new_secret()
        if not end and len(found.secrets) == SECRETS_MAX:
            raise Refusal(f"endpoint {shortened(name)} has {SECRETS_MAX} secrets: end the last rotation, by --end")
        secrets = found.secrets[:1] if end else (secret, *found.secrets)
        if not await set_secrets(session, found.key, before=found.secrets, secrets=secrets):
            raise Refusal(f"somebody else has changed endpoint {shortened(name)} just now: look at it, and try again")
        if end:
            _answer(f"endpoint {found.key.target} signs with its newest secret alone", as_json=as_json)
        else:
            _tell_secret(f"endpoint {found.key.target} signs with {len(secrets)} secrets", secret, as_json=as_json)
        return DONE

    return with_session(do)


@endpoints.command(name="test")
def try_(name: Name, tenant: Tenant = DEFAULT_TENANT, as_json: Json = False) -> int:
    """Send one webhook from this machine now, and print what the endpoint answers."""

    async def do(session: Session) -> int:
        found = await _found(session, EndpointName(tenant, name))
        route = _route(found)
        if route.endpoint is None:
            raise InvalidEndpoint(route.why_not or "")
        async with Sender(SenderSettings(), networks=load_settings().worker.networks) as sender:
            answer = await sender.send(route.endpoint, _test_message(found))
        delivered, ms = isinstance(answer, Delivered), round(answer.duration_s * 1000)
        if as_json:
            print_json({"delivered": delivered, "ms": ms, "answer": _said(answer)})
        else:
            tell(f"{found.key.target}: {_said(answer)}, after {ms} ms")
        return DONE if delivered else NOT_DONE

    return with_session(do)


@endpoints.command()
def enable(name: Name, tenant: Tenant = DEFAULT_TENANT, as_json: Json = False) -> int:
    """Send to an endpoint again that was disabled, or answered 410."""

    async def do(session: Session) -> int:
        found = await _found(session, EndpointName(tenant, name))
        changed = await enable_endpoint(session, found.key)
        _answer(f"endpoint {found.key.target} {'is enabled' if changed else 'was not disabled'}", as_json=as_json)
        return DONE if changed else NOT_DONE

    return with_session(do)


@endpoints.command()
def disable(
    name: Name,
    reason: Annotated[str, typer.Option("--reason", help="Why, for whoever finds it.")] = "by hand",
    yes: Yes = False,
    tenant: Tenant = DEFAULT_TENANT,
    as_json: Json = False,
) -> int:
    """Send nothing more to an endpoint: its deliveries become dead letters, and no new timer may name it."""

    async def do(session: Session) -> int:
        found = await _found(session, EndpointName(tenant, name))
        if not yes and found.disabled_at is None and await _is_named(session, found.key, "disable", as_json=as_json):
            return NOT_DONE
        changed = await disable_endpoint(session, found.key, why=reason)
        _answer(f"endpoint {found.key.target} {'is disabled' if changed else 'was disabled already'}", as_json=as_json)
        return DONE if changed else NOT_DONE

    return with_session(do)


@endpoints.command()
def remove(name: Name, yes: Yes = False, tenant: Tenant = DEFAULT_TENANT, as_json: Json = False) -> int:
    """Remove an endpoint: deliveries on their way to it become dead letters."""

    async def do(session: Session) -> int:
        found = await _found(session, EndpointName(tenant, name))
        if not yes and await _is_named(session, found.key, "remove", as_json=as_json):
            return NOT_DONE
        await remove_endpoint(session, found.key)
        _answer(f"endpoint {found.key.target} is removed", as_json=as_json)
        return DONE

    return with_session(do)


async def _found(session: Session, wanted: EndpointName) -> StoredEndpoint:
    found = (await find_endpoints(session, [wanted])).get(wanted)
    if found is None:
        raise Refusal(
            f"tenant {shortened(wanted.tenant_id)} has no endpoint {shortened(wanted.name)}: "
            "`shardclock endpoints` lists them"
        )
    return found


async def _is_named(session: Session, endpoint: EndpointName, verb: str, *, as_json: bool) -> bool:
    """Say whether pending timers name an endpoint; if so, print how many, and that nothing was changed."""
    timers = await count_timers_of_endpoint(session, endpoint)
    if timers and as_json:
        print_json({"done": None, "pending_timers": timers})
    elif timers:
        many = f"{timers:,} pending timers or more" if timers == COUNTED_MAX else counted(timers, "pending timer")
        have, each = ("have", "each") if timers > 1 else ("has", "it")
        tell(
            f"{many} {have} the target {endpoint.target}, and {each} would be a dead letter whenever it fires; "
            f"nothing was changed; add --yes to {verb} it"
        )
    return timers > 0


def _route(stored: StoredEndpoint) -> Route:
    settings = load_settings().worker
    return route_of(stored, EndpointRules(settings.webhook_http, settings.networks))


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


def _test_message(endpoint: StoredEndpoint) -> Message:
    fields: dict[str, str | int | None] = {
        "timer_key": None, "tenant_id": endpoint.tenant_id, "target": endpoint.key.target, "name": "a test",
    }  # fmt: skip
    return Message(f"test_{time.time_ns()}", write_body(datetime.now(UTC), fields, None))


def _said(answer: Answer) -> str:
    return f"it answered {answer.status}" if isinstance(answer, Delivered) else answer.reason


def _tell_secret(done: str, secret: str, *, as_json: bool) -> None:
    key = check_secret(secret)
    shown = key.public if isinstance(key, PrivateKey) else secret
    if as_json:
        print_json({"done": done, "secret": shown})
    else:
        tell(f"{done}; its receiver verifies webhooks with this, which is not shown again:")
        out.print(shown, markup=False, soft_wrap=True)


def _answer(done: str, *, as_json: bool) -> None:
    if as_json:
        print_json({"done": done})
    else:
        tell(done)


def _row(it: ListedEndpoint) -> tuple[object, ...]:
    state = "works" if it.disabled_at is None else f"disabled: {it.disabled_why}"
    return it.tenant_id, f"{WEBHOOK}{it.name}", it.url, state, it.waiting
