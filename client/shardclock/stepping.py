"""Find the cluster whose clock a test moves: it is the server's, which says so by an entry point.

This package imports nothing of the server. What stands here says what a test may ask of such a cluster.
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
    """A cluster that a test has to itself; its clock stands still until `advance` moves it."""

    dsn: str
    url: str

    @property
    def client(self) -> "AsyncClient":
        """Return a client of its HTTP API."""

    @property
    def webhooks(self) -> Sequence[Any]:
        """Return the webhooks that would have been sent: each has `url`, `tenant_id`, `id` and `body`."""

    def now(self) -> datetime:
        """Return what its clock shows."""

    async def advance(self, by: str | timedelta | None = None, *, to: datetime | None = None) -> datetime:
        """Move the clock, and let happen what is due on the way; return what it shows then."""

    async def log(self) -> Sequence[Any]:
        """Read the records of all that has happened, in its order."""

    async def deliveries(self) -> Sequence[Any]:
        """Find the deliveries of which an attempt is still to come."""


def cluster(
    app: str = "", *, jobs: str | Collection[str] | None = None, now: datetime | None = None, seed: int = 0
) -> AbstractAsyncContextManager[SteppedCluster]:
    """Run a cluster for the length of a block, with the handlers and jobs of an app, from a moment on.

    The app has the form of `shardclock up --app`, with commas between several. `jobs` chooses which of its jobs there
    are, by names or patterns such as "report.*"; without it all, with () none. Without `now` the clock begins at the
    present moment. Pauses before further attempts are drawn from `seed`.

    errors:  ImportError     the server is not installed here; it says what to install
             InvalidHandler  the app can't be used
             ValueError      `now` has no time zone, or no job of the app has one of the names
    """
    found = next(iter(entry_points(group=GROUP, name=NAME)), None)
    if found is None:
        raise ImportError(
            "shardclock.testing.cluster runs the server's own code, and no server that brings it is installed here:"
            f" install the distribution shardclock {version('shardclock-client')} beside shardclock-client"
        )
    chosen = {} if jobs is None else {"jobs": jobs}
    made: AbstractAsyncContextManager[SteppedCluster] = found.load()(app, now=now, seed=seed, **chosen)
    return made
