"""Find the server's test cluster, which has a clock that the test moves.

The server provides the cluster through an entry point. This package imports nothing of the server; the protocol in this
module defines a test cluster's methods.
"""

from collections.abc import Collection, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import datetime, timedelta
from importlib.metadata import entry_points, version
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from shardclock.http import AsyncClient

GROUP, NAME = "shardclock.testing", "cluster"


class SteppedCluster(Protocol):
    """A cluster for one test, with a clock that only `advance` moves."""

    dsn: str
    url: str

    @property
    def client(self) -> "AsyncClient":
        """A client of the cluster's HTTP API."""

    @property
    def webhooks(self) -> Sequence[Any]:
        """The webhooks that the cluster recorded instead of sending, each with `url`, `tenant_id`, `id` and `body`."""

    def now(self) -> datetime:
        """Return the time of the cluster's clock."""

    async def advance(self, by: str | timedelta | None = None, *, to: datetime | None = None) -> datetime:
        """Move the clock, do all work that becomes due before the new time, and return the new time."""

    async def log(self) -> Sequence[Any]:
        """Read all records of the log, in order."""

    async def deliveries(self) -> Sequence[Any]:
        """List the deliveries that wait for an attempt."""


def cluster(
    app: str = "", *, jobs: str | Collection[str] | None = None, now: datetime | None = None, seed: int = 0
) -> AbstractAsyncContextManager[SteppedCluster]:
    """Run a cluster during a block, with the handlers and jobs of an app.

    The app has the form of `shardclock up --app`, with commas between several apps. `jobs` selects jobs of the app, by
    names or patterns such as "report.*": all jobs if `jobs` is not given, no job if it is empty. If `now` is not given,
    the clock begins at the present moment. The random pauses before retries depend on `seed`.

    errors:  ImportError     the server is not installed here; the message names the package to install.
             InvalidHandler  the app can't be used.
             ValueError      `now` has no time zone, or `jobs` has a name that no job of the app has.
    """
    found = next(iter(entry_points(group=GROUP, name=NAME)), None)
    if found is None:
        raise ImportError(
            "shardclock.testing.cluster runs the server's own code, and the server is not installed here:"
            f" install the distribution shardclock {version('shardclock-client')} beside shardclock-client"
        )
    chosen = {} if jobs is None else {"jobs": jobs}
    made: AbstractAsyncContextManager[SteppedCluster] = found.load()(app, now=now, seed=seed, **chosen)
    return made
