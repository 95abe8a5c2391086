"""The commands about API keys, by which the HTTP API knows its callers: list them, add, rotate and revoke one."""

from collections.abc import Awaitable, Callable
from typing import Annotated

import typer

from shardclock_server.cli.lengths import read_length
from shardclock_server.cli.lists import lists, tell_if_full, tell_none
from shardclock_server.cli.options import DEFAULT_TENANT, OfTenant
from shardclock_server.cli.output import DONE, Json, print_json, print_table, say, tell
from shardclock_server.cli.session import with_session
from shardclock_server.service import keys as use_cases
from shardclock_server.service.keys import OVERLAP, SCOPES, Made, UnknownPrefix
from shardclock_server.sql.keys.keys import ApiKey, WantedKey, list_keys
from shardclock_server.sql.session import Session
from shardclock_server.timers.duration import Duration
from shardclock_server.timers.refusal import Refusal

ALL_TENANTS = "(all)"

Name = Annotated[str, typer.Argument(metavar="NAME", show_default=False, help="What it is for, or who has it.")]
Prefix = Annotated[str, typer.Argument(metavar="PREFIX", show_default=False, help="The eight characters after sck_.")]
Expires = Annotated[
    str | None,
    typer.Option("--expires", metavar="DURATION", help="After it, the key is refused; if not given, it never expires."),
]

keys = typer.Typer(
    help="List the keys of the HTTP API; the subcommands add, rotate and revoke one.",
    invoke_without_command=True,
)


@lists(keys)
def list_(
    tenant: OfTenant = None,
    limit: Annotated[int, typer.Option("--limit", "-n", metavar="N", min=1, help="At most N.")] = 100,
    as_json: Json = False,
) -> int:
    """List the keys of the HTTP API, also those that have ended."""

    async def do(session: Session) -> int:
        found = await list_keys(session, tenant_id=tenant, limit=limit)
        if as_json:
            print_json(found)
        elif found:
            columns = ["prefix", "tenant", "name", "scopes", "made", "expires", "revoked"]
            print_table("", columns, [_row(it) for it in found])
            tell_if_full(found, limit)
        else:
            none = "there are no keys; `shardclock keys add NAME --scope read` adds one"
            tell_none("keys", none, filtered=tenant is not None)
        return DONE

    return with_session(do)


@keys.command()
def add(
    name: Name,
    scopes: Annotated[
        list[str] | None,
        typer.Option(
            "--scope", metavar="SCOPE", help=f"What it allows: {', '.join(SCOPES)}; each includes those before it."
        ),
    ] = None,
    tenant: Annotated[str | None, typer.Option("--tenant", help="Whose key it is; if not given, default.")] = None,
    all_tenants: Annotated[bool, typer.Option("--all-tenants", help="An operator's key, for all tenants.")] = False,
    expires: Expires = None,
    as_json: Json = False,
) -> int:
    """Add a key, and print it, once."""
    if all_tenants and tenant is not None:
        raise Refusal("say whose key it is: give either --tenant or --all-tenants, not both")
    tenant_id = None if all_tenants else DEFAULT_TENANT if tenant is None else tenant
    wanted = WantedKey(tenant_id, name, tuple(scopes or ()), _lifetime(expires))
    return _make(lambda session: use_cases.make(session, wanted), as_json=as_json)


@keys.command()
def rotate(
    prefix: Prefix,
    overlap: Annotated[
        str | None,
        typer.Option("--overlap", metavar="DURATION", help="How long the old one is still good; if not given, 1d."),
    ] = None,
    expires: Expires = None,
    as_json: Json = False,
) -> int:
    """Add a second key with the name, scopes and tenant of this one, and print it, once; this one expires soon."""
    still_good = OVERLAP if overlap is None else read_length("--overlap", overlap)
    lifetime = _lifetime(expires)
    return _make(
        lambda session: use_cases.rotate(session, prefix, overlap=still_good, lifetime=lifetime), as_json=as_json
    )


@keys.command()
def revoke(prefix: Prefix, as_json: Json = False) -> int:
    """Revoke a key: whoever sends it is refused from now on."""

    async def do(session: Session) -> int:
        revoked = await use_cases.revoke(session, prefix)
        if as_json:
            print_json({"done": revoked.sentence})
        else:
            tell(revoked.sentence)
        return DONE

    return _with_session(do)


def _make(use_case: Callable[[Session], Awaitable[Made]], *, as_json: bool) -> int:
    async def do(session: Session) -> int:
        made = await use_case(session)
        if as_json:
            print_json({"done": made.sentence, "key": made.text, "prefix": made.key.prefix})
        else:
            tell(f"{made.sentence}; its caller sends this text, which is not shown again:")
            say(made.text)
        return DONE

    return _with_session(do)


def _with_session(work: Callable[[Session], Awaitable[int]]) -> int:
    """Do a command's work; add the command line's way out to a refusal.

    errors:  Refusal  the use case's sentence, and which command helps
    """
    try:
        return with_session(work)
    except UnknownPrefix as refusal:
        raise Refusal(f"{refusal}: `shardclock keys` lists them") from None


def _lifetime(expires: str | None) -> Duration | None:
    return None if expires is None else read_length("--expires", expires)


def _row(key: ApiKey) -> tuple[object, ...]:
    tenant = ALL_TENANTS if key.tenant_id is None else key.tenant_id
    return key.prefix, tenant, key.name, ", ".join(key.scopes), key.created_at, key.expires_at, key.revoked_at
