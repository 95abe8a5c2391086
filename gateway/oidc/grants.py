"""Read the setting that maps groups of people to scopes and tenants: `ops=operate@*; shop=read,write@shop`."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from shardclock_server.service.keys import SCOPES
from shardclock_server.timers.model import NAME_CHARS_MAX, NAME_RULE
from shardclock_server.timers.refusal import shortened

ALL_TENANTS = "*"
FORM = "group=scope,scope@tenant, such as ops=operate@* for all tenants or shop=read,write@shop; entries end with ;"
GRANTS_MAX = 1_000


@dataclass(frozen=True, slots=True)
class Grant:
    """The scopes that one group has for a tenant, or for all tenants if `tenant_id` is None."""

    group: str
    scopes: tuple[str, ...]
    tenant_id: str | None


@dataclass(frozen=True, slots=True)
class Access:
    """A person's scopes for one tenant. If `tenant_id` is None, the person is an operator of all tenants."""

    tenant_id: str | None
    scopes: tuple[str, ...]


class GroupGrants:
    """The grants of a setting, in the order of the setting."""

    def __init__(self, grants: Iterable[Grant]) -> None:
        self._grants = tuple(grants)

    def known(self, groups: Collection[str]) -> tuple[str, ...]:
        """List the groups of a person that have a grant in the setting."""
        return tuple(dict.fromkeys(it.group for it in self._grants if it.group in groups))

    def tenants_of(self, groups: Collection[str]) -> tuple[str, ...] | None:
        """List the tenants of a person, in the order of the setting; None: all tenants."""
        given = [it.tenant_id for it in self._grants if it.group in groups]
        return None if None in given else tuple(dict.fromkeys(it for it in given if it is not None))

    def access_of(self, groups: Collection[str], tenant_id: str | None) -> Access | None:
        """Return a person's access to a tenant, or to the first tenant of the person's grants if `tenant_id` is None.

        A grant for all tenants also applies to a single tenant. If another grant gives the person a higher scope for
        this tenant, the other grant applies.

        shape:   None: the person's groups have no grant
        """
        given = [it for it in self._grants if it.group in groups]
        if tenant_id is None and given:
            tenant_id = given[0].tenant_id
        accesses = [_united(given, it) for it in (None, tenant_id)]
        found = [it for it in accesses if it is not None]
        return max(found, key=lambda it: SCOPES.index(it.scopes[-1]), default=None)


def _united(grants: Collection[Grant], tenant_id: str | None) -> Access | None:
    given = {scope for it in grants if it.tenant_id == tenant_id for scope in it.scopes}
    return Access(tenant_id, tuple(it for it in SCOPES if it in given)) if given else None


def read_grants(text: str) -> tuple[Grant, ...]:
    """Read the setting.

    errors:  ValueError  the message names the wrong entry and the correct form
    """
    entries = [it.strip() for it in text.replace("\n", ";").split(";") if it.strip()]
    if not entries or len(entries) > GRANTS_MAX:
        raise ValueError(f"the setting has {len(entries):,} entries, but must have 1 to {GRANTS_MAX:,}: {FORM}")
    return tuple(_grant_of(entry) for entry in entries)


def _grant_of(entry: str) -> Grant:
    # A group's name may be a distinguished name, which contains = and commas.
    group, equals, granted = (part.strip() for part in entry.rpartition("="))
    scopes, at, tenant = (part.strip() for part in granted.partition("@"))
    if not (group and equals and at):
        raise ValueError(f"the entry {shortened(entry)} is not written as {FORM}")
    names = tuple(it.strip() for it in scopes.split(","))
    for name in names:
        if name not in SCOPES:
            raise ValueError(
                f"the entry {shortened(entry)} has the unknown scope {shortened(name)}: use {', '.join(SCOPES)}"
            )
    if not (1 <= len(tenant) <= NAME_CHARS_MAX and tenant.isprintable()):
        raise ValueError(f"the entry {shortened(entry)} names no tenant: it must be {NAME_RULE}, or * for all tenants")
    return Grant(group, names, None if tenant == ALL_TENANTS else tenant)
