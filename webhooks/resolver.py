"""Resolve names in bounded time to a bounded number of addresses, because a tenant controls the name servers."""

import asyncio
import errno
import socket
from collections import Counter
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import ContextVar

from aiohttp.abc import AbstractResolver, ResolveResult

RESOLVE_S = 5.0
# aiohttp tries all addresses of a name, so without this limit a tenant could direct hundreds of connections at a third
# party.
ADDRESSES_MAX = 3  # The maximum number of addresses for each family, IPv4 and IPv6.
# Lookups have a separate pool of threads, because a hanging name server occupies a thread for about ten seconds.
THREADS = 64

Found = list[tuple[socket.AddressFamily, int, str]]  # family, protocol, address

lookup_tenant: ContextVar[str] = ContextVar("lookup_tenant", default="")  # the tenant of the current lookup


class BoundedResolver(AbstractResolver):
    """Limit the time that another resolver takes, and the number of addresses that it returns."""

    def __init__(self, resolver: AbstractResolver) -> None:
        self._resolver = resolver

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        """Resolve a name.

        errors:  OSError  the name does not exist, or no answer came in time; EAGAIN: too many lookups are under way
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


class SystemResolver(AbstractResolver):
    """Resolve names with the operating system.

    As in `fair_semaphore`, the lookups of a tenant may occupy at most as many threads as are free. A tenant with a
    hanging name server therefore occupies at most half of the threads.
    """

    def __init__(self, threads: int = THREADS) -> None:
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="names")
        self._threads_max = threads
        self._under_way: dict[Future[Found], str] = {}  # each lookup with its tenant

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        """Resolve a name.

        errors:  OSError  the name does not exist; EAGAIN: all threads are busy, or the tenant has used up its share
        """
        tenant = lookup_tenant.get()
        of_all = list(self._under_way.values())
        if of_all.count(tenant) >= self._threads_max - len(of_all):
            raise OSError(errno.EAGAIN, "too many lookups are under way")
        lookup = self._threads.submit(_look_up, host, port, family)
        # Count the lookup until its thread is free, even if the request has ended earlier.
        self._under_way[lookup] = tenant
        lookup.add_done_callback(self._under_way.pop)
        flags = socket.AI_NUMERICHOST
        return [
            ResolveResult(hostname=host, host=address, port=port, family=found, proto=protocol, flags=flags)
            for found, protocol, address in await asyncio.wrap_future(lookup)
        ]

    async def close(self) -> None:
        """Close the pool without waiting for lookups."""
        self._threads.shutdown(wait=False, cancel_futures=True)


def _look_up(host: str, port: int, family: socket.AddressFamily) -> Found:
    found = socket.getaddrinfo(host, port, family=family, type=socket.SOCK_STREAM, flags=socket.AI_ADDRCONFIG)
    return [(family, protocol, str(address[0])) for family, _, protocol, _, address in found]
