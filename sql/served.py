"""The tenants and the API key of a session's statements.

The policies of sql/roles.sql read these values if the session has the gateway's role. Other roles can read all rows.
"""

import asyncpg

Tenants = frozenset[str]
PERSON = "person "
NO_TENANTS: Tenants = frozenset()
ALL_TENANTS: Tenants = frozenset({"\n"})  # no tenant can have this name
_HAS_POLICIES = "select exists (select from pg_catalog.pg_policies p where p.schemaname = 'shardclock')"


def author_of(key_prefix: str | None, subject: str | None, name: str | None) -> str:
    """Return the author of a change for the log: the prefix of an API key, or `person` and the person's name.

    A prefix has eight letters and digits, so an author with `person` can't look like a prefix. "": there is neither an
    API key nor a person.
    """
    return key_prefix or ("" if subject is None else f"{PERSON}{name}")


class Served:
    """The tenants and the API key for the next statements, and the values that the server already has.

    source:  docs/decisions/0056-row-level-security.md
    """

    def __init__(self) -> None:
        self.tenants: Tenants | None = None  # None means that the session does not belong to a gateway.
        self._key_prefix = ""  # The empty text means no API key.
        self._sent_tenants: Tenants | None = None
        self._sent_key_prefix = ""
        self._has_policies = True  # if the database has no policies, the server does not need the tenants

    def choose(self, tenants: Tenants, key_prefix: str) -> None:
        """Set the tenants and the author (`author_of`) for the next statements."""
        self.tenants = tenants
        self._key_prefix = key_prefix

    async def begin(self, connection: asyncpg.Connection) -> None:
        """Record that the connection is new, so that the server has no values yet."""
        self._sent_tenants, self._sent_key_prefix = None, ""
        self._has_policies = self.tenants is not None and await connection.fetchval(_HAS_POLICIES)

    @property
    def is_current(self) -> bool:
        """Return whether the server already has all values that it needs."""
        return self._sent_key_prefix == self._key_prefix and self.unsent() is None

    async def send(self, connection: asyncpg.Connection) -> None:
        """Send the new values to the server; a rollback of a later transaction does not undo the setting."""
        # `set` takes no parameters; an additional statement with parameters would double the cost of each request.
        changes = []
        tenants, key_prefix = self.tenants, self._key_prefix
        if (tenant_list := self.unsent()) is not None:
            changes.append(f"set shardclock.tenants = {_literal(tenant_list)}")
        if self._sent_key_prefix != key_prefix:
            changes.append(f"set shardclock.key_prefix = {_literal(key_prefix)}")
        if changes:
            await connection.execute("; ".join(changes))
            self._sent_tenants, self._sent_key_prefix = tenants, key_prefix

    def unsent(self) -> str | None:
        """Return the tenants in the form that the policies read; None if the server does not need them or already has
        them."""
        if not self._has_policies or self.tenants is None or self._sent_tenants == self.tenants:
            return None
        return "*" if self.tenants >= ALL_TENANTS else f"{{{','.join(map(_element, sorted(self.tenants)))}}}"

    def note_sent(self, tenants: Tenants | None) -> None:
        """Record that a statement has sent these tenants to the server."""
        self._sent_tenants = tenants


def _element(text: str) -> str:
    """Return an array element in Postgres's notation."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _literal(text: str) -> str:
    """Return an SQL string constant; only quotes need an escape, because `standard_conforming_strings` is on."""
    return "'" + text.replace("'", "''") + "'"
