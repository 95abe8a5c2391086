"""Simulate hosts on one machine as network namespaces; a router can separate any two hosts.

The simulation needs root and iproute2. The router drops packets without a notice, as a failed switch does. Both hosts
detect the loss only by a timeout.
"""

from __future__ import annotations

import ctypes
import itertools
import os
import shutil
import signal
import subprocess
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar

import psutil

ROUTER = "router"
NAMESPACES = Path("/run/netns")
CLONE_NEWNET = 0x40000000
COMMAND_S = 10.0

T = TypeVar("T")


class Network:
    """Named hosts, each in a network namespace with an address; `close` removes the hosts and their processes."""

    def __init__(self, *hosts: str) -> None:
        self.addresses = {host: f"10.77.0.{number}" for number, host in enumerate(hosts, start=1)}
        self._prefix = f"shardclock-{os.getpid()}"

    def __enter__(self) -> Self:
        """Create and connect the namespaces."""
        try:
            self._wire()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Remove the namespaces."""
        self.close()

    def command(self, host: str) -> list[str]:
        """Return the command line that runs a command on a host."""
        return ["ip", "netns", "exec", self._name(host)]

    def within(self, host: str, do: Callable[[], T]) -> T:
        """Call a function on a host, in a separate thread; processes that the function starts are on this host, too."""
        with ThreadPoolExecutor(1, initializer=_enter, initargs=(NAMESPACES / self._name(host),)) as thread:
            return thread.submit(do).result()

    def host_of(self, pid: int) -> str | None:
        """Return the host of a process; None if the process has ended or is on no host of this network."""
        with suppress(OSError):
            namespace = Path(f"/proc/{pid}/ns/net").stat().st_ino
            return next(
                (host for host in self.addresses if (NAMESPACES / self._name(host)).stat().st_ino == namespace), None
            )
        return None

    def processes(self, host: str) -> list[psutil.Process]:
        """List the processes that run on a host."""
        return [psutil.Process(pid) for pid in self._pids(self._name(host)) if psutil.pid_exists(pid)]

    def cut(self, *ways: tuple[str, str]) -> None:
        """Drop all packets from one host to another, for each pair."""
        self._rule("add", ways)

    def mend(self, *ways: tuple[str, str]) -> None:
        """Stop dropping the packets between these pairs of hosts."""
        self._rule("del", ways)

    def close(self) -> None:
        """Kill every process on these hosts, and remove the hosts."""
        for name in map(self._name, [*self.addresses, ROUTER]):
            if (NAMESPACES / name).exists():
                for pid in self._pids(name):
                    with suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
                _ip("netns", "delete", name)

    def _wire(self) -> None:
        router = self._name(ROUTER)
        for name in map(self._name, [*self.addresses, ROUTER]):
            _ip("netns", "add", name)
            _ip("-n", name, "link", "set", "lo", "up")
        for host, address in self.addresses.items():
            name = self._name(host)
            _ip("link", "add", "uplink", "netns", name, "type", "veth", "peer", "name", f"to-{host}", "netns", router)
            _ip("-n", router, "link", "set", f"to-{host}", "up")
            _ip("-n", router, "route", "add", f"{address}/32", "dev", f"to-{host}")
            _ip("-n", name, "link", "set", "uplink", "up")
            _ip("-n", name, "address", "add", f"{address}/32", "dev", "uplink")
            _ip("-n", name, "route", "add", "default", "dev", "uplink")
        self.within(ROUTER, _forward)

    def _rule(self, verb: str, ways: Sequence[tuple[str, str]]) -> None:
        for source, target in ways:
            _ip(
                "-n", self._name(ROUTER), "rule", verb, "from", self.addresses[source], "to", self.addresses[target],
                "blackhole",
            )  # fmt: skip

    def _pids(self, name: str) -> list[int]:
        return [int(pid) for pid in _ip("netns", "pids", name).split()]

    def _name(self, host: str) -> str:
        return f"{self._prefix}-{host}"


def both_ways(host: str, *others: str) -> list[tuple[str, str]]:
    """List the directions of traffic between a host and each other host, as pairs of sender and receiver."""
    return list(itertools.chain.from_iterable(((host, other), (other, host)) for other in others))


def why_not() -> str:
    """Return the reason why this machine can't have network namespaces; empty if it can."""
    if os.geteuid() != 0:
        return "network namespaces need root"
    if shutil.which("ip") is None:
        return "the command `ip` is missing: install it with `make iproute2`"
    name = f"shardclock-{os.getpid()}-try"
    try:
        _ip("netns", "add", name)
        _ip("netns", "delete", name)
    except subprocess.CalledProcessError as error:
        return f"network namespaces are not available: {error.stderr.strip()}"
    return ""


def _forward() -> None:
    """Make this machine forward packets between the hosts, and answer ARP requests for the hosts' addresses."""
    ipv4 = Path("/proc/sys/net/ipv4")
    (ipv4 / "ip_forward").write_text("1\n")
    (ipv4 / "conf/all/proxy_arp").write_text("1\n")


def _enter(namespace: Path) -> None:
    with namespace.open() as file:
        if ctypes.CDLL(None, use_errno=True).setns(file.fileno(), CLONE_NEWNET):
            raise OSError(ctypes.get_errno(), f"can't enter {namespace}")


def _ip(*words: str) -> str:
    return subprocess.run(["ip", *words], check=True, capture_output=True, text=True, timeout=COMMAND_S).stdout
