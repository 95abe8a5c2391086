"""Run a cluster's exporter. Timers fire even if the exporter can't start."""

import time
from collections.abc import Callable
from pathlib import Path

from shardclock_server.cluster.families import REPORTED
from shardclock_server.cluster.scratch import Scratch, short_place
from shardclock_server.cluster.settings import Settings
from shardclock_server.metrics.exporter import Exporter, ExporterConfig
from shardclock_server.metrics.refusals import CannotListen
from shardclock_server.sql.dsn import Dsn

RETRY_S = 5.0


class Exporting:
    """Run an exporter, and start it again after its end. While another process uses the port, the start is retried."""

    def __init__(
        self, settings: Settings, dsn: Dsn, *, tell: Callable[[str], None], unready: Callable[[], list[str]]
    ) -> None:
        self._scratch = Scratch.make("metrics", place=short_place()) if settings.metrics_socket is None else None
        own = str(self._scratch.path / "exporter.sock") if self._scratch is not None else ""
        self.socket_path = settings.metrics_socket or own
        self._exporter = Exporter(place_of(settings, self.socket_path, dsn), unready=unready)
        self._tell = tell
        self._told = ""
        self._try_at_s = 0.0

    def tend(self) -> None:
        """Start the exporter if it does not run and the pause after its last failure is over; call this regularly."""
        if self._exporter.address is not None or time.monotonic() < self._try_at_s:
            return
        try:
            self._exporter.start()
            self._tell(f"metrics at {self._exporter.address}/metrics")
        except CannotListen as error:
            if str(error) != self._told:
                self._tell(f"{error}; timers fire without it, and it is tried again every {RETRY_S:.0f} s")
            self._told, self._try_at_s = str(error), time.monotonic() + RETRY_S

    def stop(self) -> None:
        """Stop the exporter, and remove its directory if this process created the directory."""
        self._exporter.close()
        if self._scratch is not None:
            self._scratch.remove()


def place_of(settings: Settings, socket_path: str, dsn: Dsn | None) -> ExporterConfig:
    """Return an exporter's port for metrics, its socket for reports, and the database that it reads."""
    store = dsn if settings.metrics_store else None
    return ExporterConfig(settings.metrics_host, settings.metrics_port, Path(socket_path), REPORTED, store)
