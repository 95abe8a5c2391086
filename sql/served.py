"""The tenants and the API key for which the statements of one session are.

They matter if the session's role is the gateway's: sql/roles.sql has the policies. Any other role sees all rows.
"""

import asyncpg

Tenants = frozenset[str]
NO_TENANTS: Tenants = frozenset()
ALL_TENANTS: Tenants = frozenset({"\n"})  # no tenant can have this name
_HAS_POLICIES = "select exists (select from pg_catalog.pg_policies p where p.schemaname = 'shardclock')"


class Served:
    """Hold the tenants and the API key of the next statements, and the values that the server has.

    source:  docs/decisions/0056-row-level-security.md
    """

    def __init__(self) -> None:
        self.tenants: Tenants | None = None  # only a gateway's sessions have them
        self._key_prefix = ""  # and act by an API key
        self._told_tenants: Tenants | None = None
        self._told_key_prefix = ""
        self._is_walled = True  # without policies the server is not told

    def choose(self, tenants: Tenants, key_prefix: str) -> None:
        """Choose for whom the next statements are: each act is told with the key of its own caller, "" for none."""
        self.tenants = tenants
        self._key_prefix = key_prefix

    async def begin(self, connection: asyncpg.Connection) -> None:
        """Begin on a new connection, which was told nothing."""
        self._told_tenants, self._told_key_prefix = None, ""
        self._is_walled = self.tenants is not None and await connection.fetchval(_HAS_POLICIES)

    @property
    def is_told(self) -> bool:
        """Say whether the server knows all of it, or need not."""
        return self._told_key_prefix == self._key_prefix and self.untold() is None

    async def tell(self, connection: asyncpg.Connection) -> None:
        """Tell the server the new values; no transaction could take that back."""
        # Not by parameters: `set` takes none, and a statement with parameters costs twice as much, for each request.
        told = []
        tenants, key_prefix = self.tenants, self._key_prefix
        if (said := self.untold()) is not None:
            told.append(f"set shardclock.tenants = {_literal(said)}")
        if self._told_key_prefix != key_prefix:
            told.append(f"set shardclock.key_prefix = {_literal(key_prefix)}")
        if told:
            await connection.execute("; ".join(told))
            self._told_tenants, self._told_key_prefix = tenants, key_prefix

    def untold(self) -> str | None:
        """Write the tenants as the policies read them; None: the server knows them, or need not."""
        if not self._is_walled or self.tenants is None or self._told_tenants == self.tenants:
            return None
        return "*" if self.tenants >= ALL_TENANTS else f"{{{','.join(map(_element, sorted(self.tenants)))}}}"

    def note_told(self, tenants: Tenants | None) -> None:
        """Note that the server was told these tenants by a statement."""
        self._told_tenants = tenants


def _element(text: str) -> str:
    """Write an element of an array as Postgres reads it."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _literal(text: str) -> str:
    """Write a constant of SQL; `standard_conforming_strings` is pinned, so only quotes mean something in it."""
    return "'" + text.replace("'", "''") + "'"
