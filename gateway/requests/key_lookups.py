"""Look up API keys for all requests of a gateway: one statement at a time, each for many keys, on its own session.

So callers with unknown keys, however many they are, take no session of other requests, and a key that is new to the
gateway waits for one statement or two.
"""

import asyncio
import hashlib
import time
from dataclasses import dataclass

from shardclock_server.gateway.requests.problems import unavailable
from shardclock_server.service.keys import authenticate_all, is_api_key
from shardclock_server.sql.keys.keys import ApiKey
from shardclock_server.sql.pool import Pool
from shardclock_server.sql.served import NO_TENANTS
from shardclock_server.sql.session import StatementRefused, StoreUnavailable

# A gateway asks Postgres about a key once in this time, so a revoked key works this long at most.
KNOWN_S = 2.0
KNOWN_MAX = 10_000  # good ones, and as many others
BATCH_KEYS = 500
WAITING_MAX = 5_000


@dataclass(frozen=True, slots=True)
class _Asked:
    """A key that is being looked up, and the answer for all requests that bear it."""

    text: str
    found: "asyncio.Future[ApiKey | None]"


class KeyLookups:
    """Remember keys for a short time, and ask Postgres about the others; keys that were good come first."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._good: dict[bytes, tuple[ApiKey, float]] = {}
        self._unknown: dict[bytes, float] = {}  # until when
        self._asked: dict[bytes, _Asked] = {}
        self._task: asyncio.Task[None] | None = None

    async def aclose(self) -> None:
        """Look up no more."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})

    async def find(self, text: str) -> ApiKey | None:
        """Find a key by its text, as of a moment ago; None: there is none, or it is no longer good.

        errors:  Problem           too many keys wait to be looked up
                 StoreUnavailable  the key can't be looked up now
        """
        if not is_api_key(text):
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
                raise unavailable(f"{WAITING_MAX:,} API keys wait to be looked up already; send it again")
            asked = self._asked[digest] = _Asked(text, asyncio.get_running_loop().create_future())
            if self._task is None or self._task.done():
                self._task = asyncio.create_task(self._look_up_all(), name="key lookups")
        return await asyncio.shield(asked.found)

    async def _look_up_all(self) -> None:
        while self._asked:
            digests = sorted(self._asked, key=lambda digest: digest not in self._good)[:BATCH_KEYS]
            batch = {digest: self._asked[digest] for digest in digests}
            try:
                async with self._pool.session(NO_TENANTS) as session:
                    found = await authenticate_all(session, [asked.text for asked in batch.values()])
            except (StoreUnavailable, StatementRefused) as error:
                for digest, asked in batch.items():
                    del self._asked[digest]
                    asked.found.set_exception(error)
                    asked.found.exception()  # so that it is no fault if its requests have gone
                continue
            for (digest, asked), key in zip(batch.items(), found, strict=True):
                del self._asked[digest]
                self._remember(digest, key)
                asked.found.set_result(key)

    def _remember(self, digest: bytes, key: ApiKey | None) -> None:
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
