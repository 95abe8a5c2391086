"""The host process of Ray: a child of `up`. If Ray takes its process down, only this one dies, and `up` restarts it.

Its environment tells it what to do. When its standard input ends, because its parent closed it or was killed, it hands
everything back and ends.
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
from shardclock_server.cluster.end_of_input import wait_for_end_of_input
from shardclock_server.cluster.host_events import FAILED, READY, WAITING, Say, take_stdout
from shardclock_server.cluster.ray_cluster import (
    RayRefused,
    ensure_coordinator,
    lost_servers,
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

WATCH_S = 0.25
PING_S = 2.0
COORDINATOR_LOST_S = 15.0  # Ray restarts a dead coordinator in about a second; after this long, Ray itself has failed
STOP_S = 20.0  # for the coordinator: Ray's own drain takes up to 30 s more, and Kubernetes kills us after 60 s


def main() -> int:
    """Host Ray until told to stop; return 0 after an orderly stop, 1 if Ray is lost."""
    say = take_stdout()
    logs.configure()
    log = structlog.get_logger()
    settings, temp_dir = load_settings(), Path(os.environ[TEMP_DIR])
    assert settings.find_dsn() is not None, "`up` names the database in our environment, where the actors read it, too"
    # We hold the embedded Postgres, too: it then runs until the shards have drained, even if our parent is killed.
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

    stop = _stop_event()
    address = settings.ray_address
    if address is not None and not wait_for_ray(address, stop=stop, tell=partial(say, WAITING)):
        return 0
    start_ray(settings, temp_dir)
    if _is_set(KEEP_RUNNING):
        show_logs_of_earlier_jobs()
    app = App.from_json(os.environ[APP]) if os.environ.get(APP) else None
    coordinator = ensure_coordinator(settings, os.environ[CLUSTER_ID], app)
    say(READY, "")
    watch = _Watch(coordinator, own_ray=settings.ray_address is None)
    while not stop.wait(WATCH_S):
        lost = watch.lost()
        if lost:
            structlog.get_logger().error("lost Ray", why=lost)
            # An orderly exit would wait a minute for a server that is gone.
            shutil.rmtree(temp_dir, ignore_errors=True)
            os._exit(1)
    if not _is_set(KEEP_RUNNING):
        _stop_coordinator(coordinator)
    ray.shutdown()
    return 0


class _Watch:
    """Watch whether Ray and the coordinator still work."""

    def __init__(self, coordinator: Any, *, own_ray: bool) -> None:
        self._coordinator = coordinator
        self._own_ray = own_ray
        self._answered_at_s = time.monotonic()
        self._asked_at_s = 0.0
        self._question: Any = None
        self._why_not = ""
        self._is_stuck = False

    def lost(self) -> str:
        """Say what is lost, "" if nothing is; never wait."""
        if self._own_ray and (servers := lost_servers()):
            return f"{' and '.join(servers)} died"
        self._ping()
        if self._is_stuck:
            return "no shard comes up in it"
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
            # Another Ray is not ours to start anew: there, a shard may wait for a node or an image.
            self._is_stuck = not ray.get(self._question) and self._own_ray
            self._answered_at_s, self._why_not = now, ""
        except ray.exceptions.RayError as error:
            # Either the coordinator is being restarted, which the next ping will show, or it can't start: then the last
            # line of Ray's message says why.
            self._why_not = f": {str(error).strip().rpartition(chr(10))[2][:300]}"
        self._question = None


def _stop_coordinator(coordinator: Any) -> None:
    import ray

    try:
        ray.get(coordinator.stop.remote(), timeout=STOP_S)
    except ray.exceptions.RayError as error:
        structlog.get_logger().warning("the coordinator did not answer the stop", error=type(error).__name__)
    ray.kill(coordinator, no_restart=True)


def _stop_event() -> threading.Event:
    """Make an event that is set by SIGTERM, SIGINT or the end of standard input."""
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())

    def wait_for_the_end() -> None:
        wait_for_end_of_input()
        stop.set()

    threading.Thread(target=wait_for_the_end, name="stdin", daemon=True).start()
    return stop


def _is_set(name: str) -> bool:
    return os.environ.get(name) == "1"


if __name__ == "__main__":
    sys.exit(main())
