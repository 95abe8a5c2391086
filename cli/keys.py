"""The commands about API keys, which authenticate callers of the HTTP API: list, add, rotate, revoke."""

from collections.abc import Awaitable, Callable
from typing import Annotated

import typer

from shardclock_server.cli.lengths import read_length
from shardclock_server.cli.lists import full_note, lists, none_note, print_list
from shardclock_server.cli.options import DEFAULT_TENANT, OfTenant, limit_option
from shardclock_server.cli.output import DONE, Json, print_done, print_line
from shardclock_server.cli.session import with_session
from shardclock_server.service import keys as use_cases
from shardclock_server.service.keys import OVERLAP, SCOPES, CreatedKey
from shardclock_server.sql.keys.keys import ApiKey, WantedKey, list_keys
from shardclock_server.sql.session import Session
from shardclock_server.timers.duration import Duration
from shardclock_server.timers.refusal import Refusal

ALL_TENANTS = "(all)"

Name = Annotated[
    str, typer.Argument(metavar="NAME", show_default=False, help="The key's name, such as the purpose of the key.")
]
Prefix = Annotated[
    str, typer.Argument(metavar="PREFIX", show_default=False, help="The key's prefix: the eight characters after sck_.")
]
Expires = Annotated[
    str | None,
    typer.Option("--expires", metavar="DURATION", help="The time until the key expires. Default: it never expires."),
]

keys = typer.Typer(
    help="List the keys of the HTTP API; the subcommands add, rotate and revoke one key.",
    invoke_without_command=True,
)


@lists(keys)
def list_(
    tenant: OfTenant = None,
    limit: Annotated[int, limit_option()] = 100,
    as_json: Json = False,
) -> int:
    """List the keys of the HTTP API, including expired and revoked keys."""

    async def do(session: Session) -> int:
        found = await list_keys(session, tenant_id=tenant, limit=limit)
        columns = ["prefix", "tenant", "name", "scopes", "made", "expires", "revoked"]
        of_all = "there are no keys; add a key with `shardclock keys add NAME --scope read`"
        none, more = none_note("keys", of_all, filtered=tenant is not None), full_note(found, limit)
        return print_list({"keys": found}, columns, [_row(it) for it in found], none=none, more=more, as_json=as_json)

    return with_session(do)


@keys.command()
def add(
    name: Name,
    scopes: Annotated[
        list[str] | None,
        typer.Option(
            "--scope",
            metavar="SCOPE",
            help=f"The allowed scope: {', '.join(SCOPES)}; each scope includes the earlier scopes.",
        ),
    ] = None,
    tenant: Annotated[str | None, typer.Option("--tenant", help="The tenant of the key. Default: default.")] = None,
    all_tenants: Annotated[bool, typer.Option("--all-tenants", help="An operator's key, for all tenants.")] = False,
    expires: Expires = None,
    as_json: Json = False,
) -> int:
    """Add a key, and print it once."""
    if all_tenants and tenant is not None:
        raise Refusal("choose the tenant of the key: give either --tenant or --all-tenants")
    tenant_id = None if all_tenants else DEFAULT_TENANT if tenant is None else tenant
    wanted = WantedKey(tenant_id, name, tuple(scopes or ()), _lifetime(expires))
    return _make(lambda session: use_cases.make(session, wanted), as_json=as_json)


@keys.command()
def rotate(
    prefix: Prefix,
    overlap: Annotated[
        str | None,
        typer.Option("--overlap", metavar="DURATION", help="The time until the old key expires. Default: 1d."),
    ] = None,
    expires: Expires = None,
    as_json: Json = False,
) -> int:
    """Add a second key with the name, scopes and tenant of the old key, and print it once; the old key expires soon."""
    still_good = OVERLAP if overlap is None else read_length("--overlap", overlap)
    lifetime = _lifetime(expires)
    return _make(
        lambda session: use_cases.rotate(session, prefix, overlap=still_good, lifetime=lifetime), as_json=as_json
    )


@keys.command()
def revoke(prefix: Prefix, as_json: Json = False) -> int:
    """Revoke a key: the gateways refuse requests with the key from now on."""

    async def do(session: Session) -> int:
        revoked = await use_cases.revoke(session, prefix)
        return print_done(revoked.sentence, as_json=as_json)

    return with_session(do)


def _make(use_case: Callable[[Session], Awaitable[CreatedKey]], *, as_json: bool) -> int:
    async def do(session: Session) -> int:
        made = await use_case(session)
        shown = {"message": made.sentence, "done": True, "key": made.text, "prefix": made.key.prefix}
        print_done(f"{made.sentence}; the caller sends this text, which is not shown again:", shown, as_json=as_json)
        if not as_json:
            print_line(made.text)
        return DONE

    return with_session(do)


def _lifetime(expires: str | None) -> Duration | None:
    return None if expires is None else read_length("--expires", expires)


def _row(key: ApiKey) -> tuple[object, ...]:
    tenant = ALL_TENANTS if key.tenant_id is None else key.tenant_id
    return key.prefix, tenant, key.name, ", ".join(key.scopes), key.created_at, key.expires_at, key.revoked_at
