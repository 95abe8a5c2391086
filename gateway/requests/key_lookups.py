"""Look up API keys and sessions of the console for all requests of a gateway.

All look-ups share one Postgres session, and one statement looks up many keys. Callers with unknown keys therefore can't
use up the sessions of other requests, and a key that is not in the cache waits for at most two statements.
"""

import asyncio
import hashlib
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from shardclock_server.gateway.requests.problems import unavailable
from shardclock_server.service import sign_ins
from shardclock_server.service.keys import authenticate_all, is_api_key
from shardclock_server.sql.keys.keys import ApiKey
from shardclock_server.sql.keys.sessions import SessionHolder
from shardclock_server.sql.pool import Pool
from shardclock_server.sql.served import NO_TENANTS
from shardclock_server.sql.session import Session, StatementRefused, StoreUnavailable

# The gateway caches a key for this time, so a revoked key works for at most this time.
KNOWN_S = 2.0
KNOWN_MAX = 10_000  # the cache holds at most this many valid keys, and as many unknown keys
BATCH_KEYS = 500
WAITING_MAX = 5_000
Holder = TypeVar("Holder")


@dataclass(frozen=True, slots=True)
class SecretKind(Generic[Holder]):
    """A kind of secret text: its form, its name in messages, and the statement that finds the holder."""

    is_formed: Callable[[str], bool]
    plural: str
    find: Callable[[Session, Sequence[str]], Awaitable[list[Holder | None]]]


API_KEYS: SecretKind[ApiKey] = SecretKind(is_api_key, "API keys", authenticate_all)
SESSIONS: SecretKind[SessionHolder] = SecretKind(sign_ins.is_token, "sessions", sign_ins.holders_of)


@dataclass(frozen=True, slots=True)
class _PendingLookup(Generic[Holder]):
    """A key that is being looked up, and the result for all requests with this key."""

    text: str
    found: "asyncio.Future[Holder | None]"


class KeyLookups(Generic[Holder]):
    """Cache keys for a short time; read missing keys from Postgres in batches, recently valid keys first."""

    def __init__(self, pool: Pool, kind: SecretKind[Holder]) -> None:
        self._pool = pool
        self._kind = kind
        self._good: dict[bytes, tuple[Holder, float]] = {}
        self._unknown: dict[bytes, float] = {}  # the time until which the cache treats each key as unknown
        self._asked: dict[bytes, _PendingLookup[Holder]] = {}
        self._task: asyncio.Task[None] | None = None

    async def aclose(self) -> None:
        """Stop the look-ups."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})

    async def find(self, text: str) -> Holder | None:
        """Find a key by its text, at most KNOWN_S old; None: the key is unknown, or no longer valid.

        errors:  Problem           too many keys wait to be looked up
                 StoreUnavailable  the key can't be looked up now
        """
        if not self._kind.is_formed(text):
            return None
        digest, now_s = hashlib.sha256(text.encode()).digest(), time.monotonic()
        good = self._good.get(digest)
        if good is not None and good[1] >= now_s:
            return good[0]
        if self._unknown.get(digest, 0.0) >= now_s:
            return None
        asked = self._asked.get(digest)
        if asked is None:
            if good is None and len(self._asked) >= WAITING_MAX:
                raise unavailable(
                    f"{WAITING_MAX:,} {self._kind.plural} wait to be looked up already; send the request again"
                )
            asked = self._asked[digest] = _PendingLookup(text, asyncio.get_running_loop().create_future())
            if self._task is None or self._task.done():
                self._task = asyncio.create_task(self._look_up_all(), name="key lookups")
        return await asyncio.shield(asked.found)

    def forget(self, text: str) -> None:
        """Remove a text from the cache, because its key or session has ended."""
        self._good.pop(hashlib.sha256(text.encode()).digest(), None)

    async def _look_up_all(self) -> None:
        while self._asked:
            digests = sorted(self._asked, key=lambda digest: digest not in self._good)[:BATCH_KEYS]
            batch = {digest: self._asked[digest] for digest in digests}
            try:
                async with self._pool.session(NO_TENANTS) as session:
                    found = await self._kind.find(session, [asked.text for asked in batch.values()])
            except (StoreUnavailable, StatementRefused) as error:
                for digest, asked in batch.items():
                    del self._asked[digest]
                    asked.found.set_exception(error)
                    # retrieve the error, because asyncio would warn if all waiting requests have ended
                    asked.found.exception()
                continue
            for (digest, asked), key in zip(batch.items(), found, strict=True):
                del self._asked[digest]
                self._remember(digest, key)
                asked.found.set_result(key)

    def _remember(self, digest: bytes, key: Holder | None) -> None:
        until_s = time.monotonic() + KNOWN_S
        if key is None:
            self._good.pop(digest, None)
            if len(self._unknown) >= KNOWN_MAX:
                self._unknown.clear()
            self._unknown[digest] = until_s
            return
        if len(self._good) >= KNOWN_MAX:
            self._good.clear()
        self._good[digest] = (key, until_s)
