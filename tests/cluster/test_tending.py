"""Prove that what can't be started ends nothing else, and is tried again ever more seldom."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from shardclock_server.cluster import restarts, running
from shardclock_server.cluster.database import Database
from shardclock_server.cluster.running import RunningCluster
from shardclock_server.cluster.settings import load_settings
from shardclock_server.embedded.server import EmbeddedPostgresError
from shardclock_server.sql.dsn import Dsn

NOBODY = "/nonexistent/metrics.sock"  # a named socket has no directory of its own, which somebody must remove


class Clock:
    """A clock that the test moves, for the pauses between starts."""

    now_s = 1_000.0

    def monotonic(self) -> float:
        return self.now_s


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """Give it to what counts pauses."""
    clock = Clock()
    monkeypatch.setattr(restarts, "time", clock)
    return clock


class Parts:
    """A cluster whose parts only record that they were tended, or fail as they are told."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.told: list[str] = []
        self.tended: list[str] = []
        self.faults: dict[str, Exception] = {}
        self.cluster = RunningCluster(
            load_settings(metrics_socket=NOBODY), Database(Dsn("postgresql://x/x")), tell=self.told.append
        )
        for owner, name, part in (
            (self.cluster, "_tend_database", "Postgres"),
            (self.cluster._exporting, "tend", "the exporter"),
            (self.cluster._gateway, "tend", "the HTTP API"),
            (self.cluster, "_tend_host", "Ray"),
        ):
            monkeypatch.setattr(owner, name, lambda part=part: self._tend(part))

    def tend(self) -> list[str]:
        """Tend all; list which were."""
        self.tended.clear()
        self.cluster.tend()
        return list(self.tended)

    def _tend(self, part: str) -> None:
        self.tended.append(part)
        if part in self.faults:
            raise self.faults[part]


@pytest.fixture
def parts(monkeypatch: pytest.MonkeyPatch, clock: Clock) -> Iterator[Parts]:
    """Give a cluster that has not been started."""
    parts = Parts(monkeypatch)
    yield parts
    parts.cluster.stop()


ALL = ["Postgres", "the exporter", "the HTTP API", "Ray"]


@pytest.mark.parametrize("part", ALL)
def test_one_that_can_t_be_started_ends_no_other(parts: Parts, part: str) -> None:
    parts.faults[part] = OSError(28, "No space left on device")

    assert parts.tend() == ALL
    assert parts.told == [f"{part} can't be started ([Errno 28] No space left on device); trying again in 0 s"]


def test_it_is_tried_again_ever_more_seldom_until_it_goes_again(parts: Parts, clock: Clock) -> None:
    parts.faults["Postgres"] = EmbeddedPostgresError("it did not come up")
    tried = 0
    for _ in range(60):
        tried += "Postgres" in parts.tend()
        clock.now_s += 1.0

    assert tried == len(parts.told) < 12
    parts.faults.clear()
    clock.now_s += 60.0
    assert parts.tend() == ALL
    assert parts.tend() == ALL, "at once from then on"


@dataclass
class SilentHost:
    """A host process that never says that it is ready."""

    clock: Clock
    started_s: float
    killed_s: float | None = None

    @property
    def has_ended(self) -> bool:
        return self.killed_s is not None

    def kill(self) -> None:
        self.killed_s = self.clock.now_s


def test_a_host_that_is_never_ready_is_killed_and_later_ones_have_longer(
    monkeypatch: pytest.MonkeyPatch, clock: Clock
) -> None:
    cluster = RunningCluster(
        load_settings(metrics_socket=NOBODY), Database(Dsn("postgresql://x/x")), tell=lambda _: None
    )
    hosts: list[SilentHost] = []

    def start() -> None:
        cluster._restarts.begin()
        hosts.append(SilentHost(clock, clock.now_s))
        monkeypatch.setattr(cluster, "_host", hosts[-1])

    monkeypatch.setattr(running, "time", clock)
    monkeypatch.setattr(cluster, "_start_host", start)
    monkeypatch.setattr(cluster, "_hears_ready", lambda _: False)
    monkeypatch.setattr(cluster, "_clear_host", lambda: monkeypatch.setattr(cluster, "_host", None))
    start()
    for _ in range(1_200):
        clock.now_s += 1.0
        cluster._tend_host()

    lived_s = [host.killed_s - host.started_s for host in hosts if host.killed_s is not None]
    assert lived_s == [31.0, 31.0, 61.0, 121.0, 241.0, 241.0, 241.0]
