"""Test which connection is closed for a new connection; other addresses and authenticated callers keep their
connections.
"""

from __future__ import annotations

from itertools import count

import pytest

from shardclock_server.gateway.connections import Connections, connections_max, site_of


class FakeConnection:
    """A connection that records its end."""

    def __init__(self) -> None:
        self.is_ended = False

    def end(self) -> None:
        """Record the end of the connection."""
        self.is_ended = True


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """At each read, move the clock by more than the time for which a connection counts as young."""
    ticks = count(0, 10)
    monkeypatch.setattr("shardclock_server.gateway.connections.time.monotonic", lambda: float(next(ticks)))


def opened(all_: Connections, address: str, many: int, *, state: str = "new") -> list[FakeConnection]:
    """Open connections that have sent nothing yet ("new"), are idle after an authenticated request, or are busy."""
    fakes = [FakeConnection() for _ in range(many)]
    for fake in fakes:
        assert all_.admit(fake, address)
        if state != "new":
            all_.begin(fake)
        if state == "idle":
            all_.rest(fake, is_proven=True)
    return fakes


def ended(fakes: list[FakeConnection]) -> list[bool]:
    return [fake.is_ended for fake in fakes]


def test_one_address_has_at_most_three_quarters_and_then_replaces_its_oldest_silent_connection() -> None:
    all_ = Connections(16)
    silent = opened(all_, "10.0.0.1", 12)
    idle = opened(all_, "10.0.0.1", 1, state="idle")

    assert ended(silent) == [True] + [False] * 11
    opened(all_, "10.0.0.1", 11, state="busy")
    assert ended(silent) == [True] * 12
    assert ended(idle) == [False]
    opened(all_, "10.0.0.1", 1, state="busy")
    assert ended(idle) == [True]
    assert not all_.admit(FakeConnection(), "10.0.0.1")
    assert len(all_) == 12


def test_a_new_connection_never_ends_a_young_connection_of_the_same_client(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shardclock_server.gateway.connections.time.monotonic", lambda: 7.0)
    all_ = Connections(8)
    begun = opened(all_, "10.0.0.1", 6)
    assert not all_.admit(FakeConnection(), "10.0.0.1")
    opened(all_, "10.0.0.2", 3)
    assert ended(begun) == [True] + [False] * 5


def test_at_the_limit_the_address_with_the_most_silent_connections_loses_a_connection() -> None:
    all_ = Connections(8)
    many, few = opened(all_, "10.0.0.1", 5), opened(all_, "10.0.0.2", 2)
    opened(all_, "10.0.0.3", 1)
    opened(all_, "10.0.0.4", 1)

    assert ended(many) == [True] + [False] * 4
    assert ended(few) == [False] * 2


def test_an_authenticated_idle_connection_is_ended_only_for_an_address_with_fewer_connections() -> None:
    all_ = Connections(8)
    many = opened(all_, "10.0.0.1", 6, state="idle")
    opened(all_, "10.0.0.2", 2, state="busy")
    opened(all_, "10.0.0.3", 1, state="busy")
    assert ended(many) == [True] + [False] * 5

    all_ = Connections(8)
    for site in range(8):
        opened(all_, f"10.0.1.{site}", 1, state="idle")
    assert not all_.admit(FakeConnection(), "10.0.1.1")
    assert all_.admit(FakeConnection(), "10.0.2.1")


def test_busy_connections_are_never_ended_and_a_closed_one_makes_room() -> None:
    all_ = Connections(4)
    busy = [opened(all_, f"10.0.0.{site}", 1, state="busy")[0] for site in range(4)]

    assert not all_.admit(FakeConnection(), "10.0.0.9")
    all_.leave(busy[0])
    all_.leave(busy[0])
    assert all_.admit(FakeConnection(), "10.0.0.9")
    assert ended(busy) == [False] * 4


def test_closed_connections_leave_nothing_in_memory() -> None:
    all_ = Connections(100)
    for state in ("new", "idle", "busy"):
        for fake in opened(all_, f"10.0.0.{state}", 5, state=state):
            all_.leave(fake)
    assert (len(all_), all_._by_address, all_._unproven, all_._idle) == (0, {}, {}, {})


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("10.0.0.1", "10.0.0.1", True), ("10.0.0.1", "10.0.0.2", False), ("::ffff:10.0.0.1", "10.0.0.1", True),
        ("2001:db8::1", "2001:db8::ffff:1", True), ("2001:db8::1", "2001:db8:0:1::1", False),
        ("fe80::1%eth0", "fe80::2%eth0", True), ("", "", True), ("::1", "127.0.0.1", False),
    ],
)  # fmt: skip
def test_an_ipv6_network_is_one_client(one: str, other: str, same: bool) -> None:
    assert (site_of(one) == site_of(other)) is same


def test_connections_leave_files_for_sessions() -> None:
    assert connections_max(20) - connections_max(30) in {0, 10}
