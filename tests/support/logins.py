"""Roles with a password; the tests' server asks no other role for a password."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path

import asyncpg

from tests.support.factories import query, value
from tests.support.roles import USER
from tests.support.waiting import eventually

FIRST = "first-word"


@dataclass(frozen=True)
class Login:
    """A role that logs in only with its password."""

    dsn: str
    user: str

    def named(self, password: str = "") -> str:
        """Write the login's DSN, with a password or without."""
        return USER.sub(f"{self.user}:{password}" if password else self.user, self.dsn)

    async def gets_in(self, password: str) -> bool:
        """Return whether Postgres accepts the login."""
        try:
            await (await asyncpg.connect(self.named(password))).close()
        except asyncpg.InvalidAuthorizationSpecificationError:
            return False
        return True

    async def change(self, password: str) -> None:
        await query(self.dsn, f"alter role {self.user} password '{password}'")
        ended = "select count(pg_terminate_backend(pid, 10000)) from pg_stat_activity where usename = $1"
        assert await value(self.dsn, ended, self.user) > 0


@asynccontextmanager
async def guarded(dsn: str, role: str) -> AsyncIterator[Login]:
    """Make a role with the password `FIRST` and the rights of another role, for a block."""
    one = Login(dsn, f"guarded_{secrets.token_hex(4)}")
    await query(dsn, f"create role {one.user} login in role {role} password '{FIRST}'")
    try:
        with _first_rule(Path(await value(dsn, "show hba_file")), f"local all {one.user} scram-sha-256"):
            await query(dsn, "select pg_reload_conf()")

            async def is_guarded() -> bool:
                return not await one.gets_in("wrong")

            await eventually(is_guarded)
            yield one
    finally:
        await query(dsn, "select pg_reload_conf()")
        await query(dsn, f"drop role {one.user}")


@contextmanager
def _first_rule(rules: Path, rule: str) -> Iterator[None]:
    """Put one rule before the server's other rules for logins."""
    before = rules.read_text()
    rules.write_text(f"{rule}\n{before}")
    try:
        yield
    finally:
        rules.write_text(before)
