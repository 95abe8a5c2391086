"""The exporter beside a running cluster: its socket, and its port, which may be somebody else's for a while."""

import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from cluster.settings import Settings
from metrics.exporter import Exporter, Place
from metrics.server import CannotListen

RETRY_S = 5.0


class Exporting:
    """Keep an exporter; without its port, timers fire all the same."""

    def __init__(
        self, settings: Settings, dsn: str, *, tell: Callable[[str], None], unready: Callable[[], list[str]]
    ) -> None:
        self._own_dir: Path | None = None
        if settings.metrics_socket is None:
            self._own_dir = Path(tempfile.mkdtemp(prefix="shardclock-metrics-"))
        self.socket_path = settings.metrics_socket or str(self._own_dir) + "/exporter.sock"
        self._exporter = Exporter(place_of(settings, self.socket_path, dsn), unready=unready)
        self._tell = tell
        self._told = ""
        self._try_at_s = 0.0

    def tend(self) -> None:
        """Serve the pages, unless they are served already or were tried just now; call this often."""
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
        """End the exporter and remove its directory, if it was ours."""
        self._exporter.close()
        if self._own_dir is not None:
            shutil.rmtree(self._own_dir, ignore_errors=True)


def place_of(settings: Settings, socket_path: str, dsn: str | None) -> Place:
    """Say where an exporter serves and listens, and which database it reads."""
    return Place(
        settings.metrics_host, settings.metrics_port, Path(socket_path), dsn if settings.metrics_store else None
    )
