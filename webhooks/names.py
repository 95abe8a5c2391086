"""Resolve names, in bounded time and to a bounded number of addresses: a tenant owns the zone, and its name servers."""

import asyncio
import errno
import socket
from collections import Counter
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import ContextVar

from aiohttp.abc import AbstractResolver, ResolveResult

RESOLVE_S = 5.0
# aiohttp tries one address after the other, and some at once. A name of hundreds would turn one delivery into as many
# connections to somebody else.
ADDRESSES_MAX = 3  # of each family
# Threads of our own: a name server that hangs holds one for as long as the C library waits, ten seconds or so.
THREADS = 64

Found = list[tuple[socket.AddressFamily, int, str]]  # family, protocol, address

asking: ContextVar[str] = ContextVar("asking", default="")  # the tenant for whom a name is looked up


class Names(AbstractResolver):
    """Bound what another resolver may take and give."""

    def __init__(self, resolver: AbstractResolver) -> None:
        self._resolver = resolver

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        """Resolve a name.

        errors:  OSError  there is no such name, or no answer in time; EAGAIN: too many lookups are under way
        """
        try:
            async with asyncio.timeout(RESOLVE_S):
                found = await self._resolver.resolve(host, port, family)
        except TimeoutError:
            raise OSError(None, "no answer in time") from None
        except UnicodeError:
            raise OSError(None, "not a name") from None
        counts: Counter[int] = Counter()
        taken: list[ResolveResult] = []
        for result in found:
            counts[result["family"]] += 1
            if counts[result["family"]] <= ADDRESSES_MAX:
                taken.append(result)
        return taken

    async def close(self) -> None:
        """Close the resolver."""
        await self._resolver.close()


class SystemNames(AbstractResolver):
    """Resolve as the operating system does.

    As in webhooks/turns.py, a tenant may have under way as many lookups as threads are free: one whose name server
    hangs holds half of them.
    """

    def __init__(self, threads: int = THREADS) -> None:
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="names")
        self._threads_max = threads
        self._under_way: dict[Future[Found], str] = {}  # and for whom

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        """Resolve a name.

        errors:  OSError  there is no such name; EAGAIN: all threads are in lookups, or the tenant has its share
        """
        tenant = asking.get()
        of_all = list(self._under_way.values())
        if of_all.count(tenant) >= self._threads_max - len(of_all):
            raise OSError(errno.EAGAIN, "too many lookups are under way")
        lookup = self._threads.submit(_look_up, host, port, family)
        # The thread is busy until the lookup ends, even if nobody waits for it any more.
        self._under_way[lookup] = tenant
        lookup.add_done_callback(self._under_way.pop)
        flags = socket.AI_NUMERICHOST
        return [
            ResolveResult(hostname=host, host=address, port=port, family=found, proto=protocol, flags=flags)
            for found, protocol, address in await asyncio.wrap_future(lookup)
        ]

    async def close(self) -> None:
        """Wait for no lookup."""
        self._threads.shutdown(wait=False, cancel_futures=True)


def _look_up(host: str, port: int, family: socket.AddressFamily) -> Found:
    found = socket.getaddrinfo(host, port, family=family, type=socket.SOCK_STREAM, flags=socket.AI_ADDRCONFIG)
    return [(family, protocol, str(address[0])) for family, _, protocol, _, address in found]
