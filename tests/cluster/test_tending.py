"""If a component can't be started, the others continue, and the pauses between its starts grow."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from typing import cast

import pytest

from chaos.clusters import STOOD_BY_S
from shardclock_server.cluster import kept_host, restarts
from shardclock_server.cluster.database import Database
from shardclock_server.cluster.host_events import ALIVE, LOST, READY, STOP, found
from shardclock_server.cluster.hosts import Hosts
from shardclock_server.cluster.kept_host import SILENT_S, KeptHost
from shardclock_server.cluster.local_cluster import _obey
from shardclock_server.cluster.running import RunningCluster
from shardclock_server.cluster.settings import load_settings
from shardclock_server.coordinator.reconciler import Reconciler
from shardclock_server.embedded.server import EmbeddedPostgresError
from shardclock_server.sql.dsn import Dsn
from tests.support.clock import Clock
from tests.support.factories import BOUND_S

NO_SOCKET = "/nonexistent/metrics.sock"  # with a given socket, no directory is created that a test would have to remove


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """Replace the clock that measures pauses."""
    clock = Clock()
    monkeypatch.setattr(restarts, "time", clock)
    return clock


class Parts:
    """A cluster with components that only record each call, or fail on request."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.told: list[str] = []
        self.tended: list[str] = []
        self.faults: dict[str, Exception] = {}
        self.cluster = RunningCluster(
            load_settings(metrics_socket=NO_SOCKET), Database(Dsn("postgresql://x/x")), tell=self.told.append
        )
        for owner, name, part in (
            (self.cluster, "_tend_database", "Postgres"),
            (self.cluster._exporting, "tend", "the exporter"),
            (self.cluster._gateway, "tend", "the HTTP API"),
            *((host, "tend", host.name) for host in self.cluster._hosts),
        ):
            monkeypatch.setattr(owner, name, lambda part=part: self._tend(part))

    def tend(self) -> list[str]:
        """Maintain all components once; list the maintained components."""
        self.tended.clear()
        self.cluster.tend()
        return list(self.tended)

    def _tend(self, part: str) -> None:
        self.tended.append(part)
        if part in self.faults:
            raise self.faults[part]


@pytest.fixture
def parts(monkeypatch: pytest.MonkeyPatch, clock: Clock) -> Iterator[Parts]:
    parts = Parts(monkeypatch)
    yield parts
    parts.cluster.stop()


ALL = ["Ray", "the host of the local keepers", "Postgres", "the exporter", "the HTTP API"]


@pytest.mark.parametrize("part", ALL)
def test_a_part_that_can_t_be_started_does_not_end_the_other_parts(parts: Parts, part: str) -> None:
    parts.faults[part] = OSError(28, "No space left on device")

    assert parts.tend() == ALL
    assert parts.told == [f"{part} can't be started ([Errno 28] No space left on device); trying again in 0 s"]


def test_the_pauses_between_restarts_grow_until_the_part_runs(parts: Parts, clock: Clock) -> None:
    parts.faults["Postgres"] = EmbeddedPostgresError("it did not start")
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
    """A host process that never reports that it is ready."""

    clock: Clock
    started_s: float
    killed_s: float | None = None

    @property
    def has_ended(self) -> bool:
        return self.killed_s is not None

    def kill(self) -> None:
        self.killed_s = self.clock.now_s

    def events(self, _: float) -> Iterator[dict[str, str]]:
        yield from ()

    def close(self) -> None:
        pass


class SilentHosts:
    """Hosts that never become ready; each start is recorded."""

    name = "Ray"

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.started: list[SilentHost] = []

    def start(self) -> SilentHost:
        self.started.append(SilentHost(self._clock, self._clock.now_s))
        return self.started[-1]

    def clear(self) -> None:
        pass


def test_a_host_that_is_never_ready_is_killed_and_later_hosts_get_more_time(
    monkeypatch: pytest.MonkeyPatch, clock: Clock
) -> None:
    hosts = SilentHosts(clock)
    kept = KeptHost(cast("Hosts", hosts), tell=lambda _: None)
    monkeypatch.setattr(kept_host, "time", clock)
    kept.start()
    for _ in range(1_200):
        clock.now_s += 1.0
        kept.tend()

    lived_s = [host.killed_s - host.started_s for host in hosts.started if host.killed_s is not None]
    assert lived_s == [31.0, 31.0, 61.0, 121.0, 241.0, 241.0, 241.0]
    assert (kept.starts, kept.losses) == (8, 7)


@dataclass
class FreezingHost(SilentHost):
    """A host process that is ready, sends its events, and then is silent."""

    said: tuple[str, ...] = (READY, ALIVE)

    def events(self, _: float) -> Iterator[dict[str, str]]:
        for event in self.said[:1]:
            self.said = self.said[1:]
            yield {"event": event, "why": ""}


@pytest.mark.parametrize(("said", "is_killed"), [((READY, ALIVE), True), ((READY,), False)])
def test_a_host_that_has_sent_signs_of_life_and_is_frozen_is_killed(
    monkeypatch: pytest.MonkeyPatch, clock: Clock, said: tuple[str, ...], is_killed: bool
) -> None:
    monkeypatch.setattr(kept_host, "time", clock)
    host, told = FreezingHost(clock, clock.now_s, said=said), list[str]()
    hosts = SilentHosts(clock)
    kept = KeptHost(cast("Hosts", hosts), tell=told.append)
    monkeypatch.setattr(hosts, "start", lambda: host)
    kept.start()
    kept.hear(0)
    begin_s = clock.now_s
    while not host.has_ended and clock.now_s < begin_s + 2 * SILENT_S:
        kept.tend()
        clock.now_s += 1.0

    assert host.has_ended == is_killed
    assert told == [f"Ray was silent for {SILENT_S:.0f} s: it is killed and is started again in 0 s"] * is_killed


class Lines:
    """A host process that is ready immediately, and records the lines that it receives."""

    def __init__(self) -> None:
        self.has_ended = False
        self.output_ended = False
        self.lines: list[bytes] = []
        self.events_told = ["ready"]

    def fileno(self) -> int:
        return 2  # an open file; nothing reads from it

    def events(self, _: float) -> Iterator[dict[str, str]]:
        yield from ({"event": event, "why": "n1"} for event in self.events_told)

    def send(self, line: bytes) -> None:
        self.lines.append(line)

    def stop(self, *, within_s: float) -> bool:
        return within_s > 0

    def close(self) -> None:
        pass


def test_the_next_ray_cluster_starts_when_the_time_of_a_takeover_is_over(parts: Parts, clock: Clock) -> None:
    # Given a host of Ray that has ended, so that local keepers take over
    ray, first, second = parts.cluster._ray, Lines(), Lines()
    assert ray is not None
    ray._hosts = cast("Hosts", Starting(first))
    ray.start()
    ray._hosts = cast("Hosts", Starting(second))
    first.has_ended = True
    KeptHost.tend(ray)

    # Then no new host is started within the promised time
    clock.now_s += STOOD_BY_S - 0.1
    KeptHost.tend(ray)
    assert (ray.starts, ray.losses) == (1, 1)
    clock.now_s += 0.2
    KeptHost.tend(ray)
    assert ray.starts == 2


def test_a_report_of_a_host_ends_the_wait_between_two_turns(parts: Parts, clock: Clock) -> None:
    # Given a host of Ray that runs, and has reported nothing
    said, says = os.pipe()
    ray = Lines()
    ray.fileno = lambda: said  # type: ignore[method-assign]
    assert parts.cluster._ray is not None
    parts.cluster._ray._hosts = cast("Hosts", Starting(ray))
    parts.cluster._ray.start()
    try:
        waited = threading.Thread(target=parts.cluster.wait, args=(BOUND_S,))
        waited.start()
        assert waited.is_alive()

        # When the process reports its end, then the wait is over
        os.write(says, b"event")
        waited.join(BOUND_S / 2)
        assert not waited.is_alive()

        # When the output has ended but the process still runs, then the wait uses no processor time
        ray.output_ended = True
        assert parts.cluster._ray.outputs == []
    finally:
        os.close(said)
        os.close(says)


def test_the_local_host_learns_that_ray_has_ended_before_rays_files_are_removed(parts: Parts, clock: Clock) -> None:
    # Given a host of Ray that is ready
    cluster, local, ray, sent = parts.cluster, Lines(), Lines(), list[bytes]()
    assert cluster._local is not None
    assert cluster._ray is not None
    for host, process in ((cluster._local, local), (cluster._ray, ray)):
        host._hosts = cast("Hosts", Starting(process))
        host.start()
        host.hear(0)
    cluster._tell_local()
    assert local.lines == [found("n1")]

    # When the output of Ray's host ends together with its process, as after kill -9
    ray.output_ended = ray.has_ended = True
    cluster._ray._hosts.clear = lambda: sent.extend(local.lines)  # type: ignore[method-assign]
    cluster.wait(0.0)
    assert local.lines == [found("n1"), LOST]

    # Then the next turn removes the files of the ended process
    KeptHost.tend(cluster._ray)
    assert sent == [found("n1"), LOST]


def test_the_local_host_learns_at_its_start_and_at_each_change_whether_ray_is_ready(parts: Parts, clock: Clock) -> None:
    cluster = parts.cluster
    local, ray = Lines(), Lines()
    assert cluster._local is not None
    assert cluster._ray is not None
    cluster._local._hosts = cast("Hosts", Starting(local))
    cluster._ray._hosts = cast("Hosts", Starting(ray))
    cluster._local.start()
    cluster._tell_local()
    assert local.lines == [LOST], "Ray has yet to start"

    def tend() -> list[bytes]:
        assert cluster._local is not None
        assert cluster._ray is not None
        local.lines.clear()
        for host in (cluster._ray, cluster._local):
            KeptHost.tend(host)
        cluster._tell_local()
        return list(local.lines)

    assert tend() == []
    assert tend() == [found("n1")]
    assert cluster._ray.is_ready
    ray.events_told = ["ending"]
    assert tend() == [LOST], "before it has ended"
    ray.has_ended = True
    assert tend() == [LOST], "a second line changes nothing"
    clock.now_s += 60.0
    ray.has_ended, ray.events_told = False, ["ready"]
    assert [*tend(), *tend()] == [found("n1")]
    assert tend() == []

    # A local host that dies while Ray serves is started again, and stands by
    local.has_ended = True
    assert tend() == [found("n1")]
    local.has_ended = False
    assert tend() == []


class Starting:
    """Start the same process again and again."""

    name = "a host"

    def __init__(self, process: Lines) -> None:
        self._process = process

    def start(self) -> Lines:
        return self._process

    def clear(self) -> None:
        pass


class Acts:
    """A coordinator that records the calls."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.has_ended = asyncio.Event()

    def lead_instead(self) -> None:
        self.calls.append("lead")

    def lead_until_ready(self, node_id: str) -> None:
        self.calls.append(f"lead until {node_id} is ready")

    def stop(self, *, is_orphan: bool = False) -> None:
        self.calls.append("end as an orphan" if is_orphan else "stop")
        if is_orphan:
            self.has_ended.set()


async def test_the_coordinator_of_local_keepers_handles_the_lines_in_their_order() -> None:
    acts = Acts()

    _obey(cast("Reconciler", acts), iter([LOST, found("n1"), STOP]))

    await asyncio.wait_for(acts.has_ended.wait(), 10)
    assert acts.calls == ["lead", "lead until n1 is ready", "stop", "end as an orphan"]
