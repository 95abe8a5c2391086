"""Run Ray in a host process, a child of `up`. If Ray is lost, the host ends, and `up` starts another host.

The host reads its settings from its environment. When the host's standard input ends, because `up` stops or was
killed, the host releases all claims and ends.
"""

import os
import shutil
import signal
import sys
import threading
import time
from functools import partial
from pathlib import Path
from typing import Any

import structlog

from shardclock_server.cluster import logs
from shardclock_server.cluster.end_of_input import lines_of_input
from shardclock_server.cluster.host_events import ENDING, FAILED, READY, STOP, WAITING, Say, take_stdout
from shardclock_server.cluster.ray_cluster import (
    RayRefused,
    RayServers,
    ensure_coordinator,
    prepare_environment,
    show_logs_of_earlier_jobs,
    start_ray,
    wait_for_ray,
)
from shardclock_server.cluster.settings import Settings, load_settings
from shardclock_server.embedded.server import EmbeddedPostgres
from shardclock_server.workers.app import App

CLUSTER_ID = "SHARDCLOCK_HOST_CLUSTER_ID"
TEMP_DIR = "SHARDCLOCK_HOST_TEMP_DIR"
EMBEDDED = "SHARDCLOCK_HOST_EMBEDDED"
KEEP_RUNNING = "SHARDCLOCK_HOST_KEEP_RUNNING"
APP = "SHARDCLOCK_HOST_APP"

WATCH_S = 0.05
PING_S = 2.0
# If the coordinator does not answer for this time, Ray counts as failed, because Ray restarts a dead coordinator in
# about a second.
COORDINATOR_LOST_S = 15.0
STOP_S = (
    # The timeout for the stop of the coordinator. After the stop, Ray's own drain takes up to 30 s, and Kubernetes
    # kills this process after 60 s in total.
    20.0
)


def main() -> int:
    """Run Ray until a stop is requested; return 0 after an orderly stop, 1 if Ray is lost."""
    say = take_stdout()
    logs.configure()
    log = structlog.get_logger()
    settings, temp_dir = load_settings(), Path(os.environ[TEMP_DIR])
    assert settings.find_dsn() is not None, "`up` names the database in our environment, where the actors read it, too"
    # This process is also a user of the embedded Postgres. So Postgres runs until the shards have drained, even if `up`
    # is killed.
    postgres = (
        EmbeddedPostgres.start(settings.data_dir, version=settings.postgres_version) if _is_set(EMBEDDED) else None
    )
    try:
        return _host_ray(settings, temp_dir, say)
    except RayRefused as error:
        say(FAILED, str(error))
        return 1
    except (RuntimeError, ConnectionError, OSError) as error:
        why = " ".join(str(error).split())
        log.error("Ray did not start", error=why)  # noqa: TRY400 - a sentence is enough
        say(FAILED, f"Ray did not start: {why}")
        return 1
    finally:
        if postgres is not None:
            postgres.close()
        shutil.rmtree(temp_dir, ignore_errors=True)


def _host_ray(settings: Settings, temp_dir: Path, say: Say) -> int:
    prepare_environment(settings, temp_dir)
    import ray

    stop = _Stop.when_told()
    address = settings.ray_address
    if address is not None and not wait_for_ray(address, stop=stop, tell=partial(say, WAITING)):
        return 0
    start_ray(settings, temp_dir)
    # `start_ray` has replaced the signal handlers by Ray's handlers, with which SIGTERM would end this process and its
    # shards immediately.
    stop.hear_signals()
    if _is_set(KEEP_RUNNING):
        show_logs_of_earlier_jobs()
    app = App.from_json(os.environ[APP]) if os.environ.get(APP) else None
    coordinator = ensure_coordinator(settings, os.environ[CLUSTER_ID], app)
    say(READY, ray.get_runtime_context().get_node_id())
    watch = _Watch(coordinator, own_ray=settings.ray_address is None)
    while not stop.wait(WATCH_S):
        lost = watch.lost()
        if lost:
            _give_up(lost, temp_dir, say)
    say(ENDING, "")
    if not _is_set(KEEP_RUNNING):
        _stop_coordinator(coordinator, is_orphan=stop.is_orphan)
    ray.shutdown()
    return 0


def _give_up(lost: str, temp_dir: Path, say: Say) -> None:
    """Exit immediately, because an orderly exit would wait a minute for a Ray server that has ended."""
    say(ENDING, "")  # ENDING is sent first, because `up` then lets the local keepers take over.
    structlog.get_logger().error("lost Ray", why=lost)
    shutil.rmtree(temp_dir, ignore_errors=True)
    os._exit(1)


class _Watch:
    """Check whether Ray and the coordinator still work."""

    def __init__(self, coordinator: Any, *, own_ray: bool) -> None:
        self._coordinator = coordinator
        self._own_ray = own_ray
        self._servers = RayServers()
        self._answered_at_s = time.monotonic()
        self._asked_at_s = 0.0
        self._question: Any = None
        self._why_not = ""
        self._is_stuck = False

    def lost(self) -> str:
        """Return the reason why Ray is lost, or "" if Ray works. The call does not wait."""
        if self._own_ray and (servers := self._servers.lost()):
            return f"{' and '.join(servers)} died"
        self._ping()
        if self._is_stuck:
            return "no shard starts in this Ray"
        silent_s = time.monotonic() - self._answered_at_s
        return f"no coordinator for {silent_s:.0f} s{self._why_not}" if silent_s > COORDINATOR_LOST_S else ""

    def _ping(self) -> None:
        import ray

        now = time.monotonic()
        if self._question is None and now - self._asked_at_s >= PING_S:
            self._asked_at_s, self._question = now, self._coordinator.ping.remote()
        if self._question is None or not ray.wait([self._question], timeout=0)[0]:
            return
        try:
            # Only our own Ray is restarted if no shard starts. In a named Ray cluster, a shard may have to wait for a
            # node or for an image.
            self._is_stuck = not ray.get(self._question) and self._own_ray
            self._answered_at_s, self._why_not = now, ""
        except ray.exceptions.RayError as error:
            # If the coordinator is being restarted, the next ping succeeds. If the coordinator can't start, the last
            # line of Ray's message has the reason.
            self._why_not = f": {str(error).strip().rpartition(chr(10))[2][:300]}"
        self._question = None


def _stop_coordinator(coordinator: Any, *, is_orphan: bool) -> None:
    import ray

    try:
        ray.get(coordinator.stop.remote(is_orphan=is_orphan), timeout=STOP_S)
    except ray.exceptions.RayError as error:
        structlog.get_logger().warning("the coordinator did not answer the stop", error=type(error).__name__)
    ray.kill(coordinator, no_restart=True)


class _Stop(threading.Event):
    """The request to stop: an event that SIGTERM, SIGINT, a line from `up`, or the end of standard input sets."""

    is_orphan = False

    @classmethod
    def when_told(cls) -> "_Stop":
        """Create the event, and start to listen to signals and to standard input."""
        stop = cls()
        stop.hear_signals()

        def listen() -> None:
            stop.is_orphan = STOP not in lines_of_input() and not stop.is_set()
            stop.set()

        threading.Thread(target=listen, name="stdin", daemon=True).start()
        return stop

    def hear_signals(self) -> None:
        """Let SIGTERM and SIGINT set the event."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: self.set())


def _is_set(name: str) -> bool:
    return os.environ.get(name) == "1"


if __name__ == "__main__":
    sys.exit(main())
