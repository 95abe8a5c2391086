"""One worker: deliveries, the endpoints of webhooks, and runs of jobs."""

from collections.abc import Callable, Sequence

from shardclock_server.jobs.spec import JobSpec
from shardclock_server.keepers.keeper import Keeper
from shardclock_server.keepers.registration import Registration
from shardclock_server.sql.cluster.holders import Incarnation
from shardclock_server.sql.dsn import Dsn
from shardclock_server.workers.deliveries import Deliveries
from shardclock_server.workers.handler import HandlerSpec
from shardclock_server.workers.needs import Needs
from shardclock_server.workers.process import HandlerProcess
from shardclock_server.workers.runs.process import RunProcess
from shardclock_server.workers.runs.runner import JobRunner, RunLimits
from shardclock_server.workers.settings import WorkerSettings
from shardclock_server.workers.stats import WorkerGauges, WorkerStats, report_of
from shardclock_server.workers.surroundings import Surroundings


class Worker(Keeper):
    """Call the targets of due deliveries, until the worker is drained or declared dead."""

    def __init__(
        self,
        incarnation: Incarnation,
        settings: WorkerSettings,
        handlers: Sequence[HandlerSpec],
        dsn: Dsn | str,
        *,
        jobs: Sequence[JobSpec] = (),
        start: Callable[[HandlerSpec], HandlerProcess],
        start_run: Callable[[Needs], RunProcess],
        surroundings: Surroundings | None = None,
    ) -> None:
        around = surroundings or Surroundings()
        self.stats = WorkerStats(spec.target for spec in handlers)
        registration = Registration(
            incarnation, settings, dsn, retry_s=settings.delivery_poll_s, failures=self.stats.failures
        )
        limits = RunLimits(settings.run_places, settings.run_lease_s, settings.delivery_poll_s)
        self.runs = JobRunner(registration, jobs, limits, start=start_run, surroundings=around)
        self.deliveries = Deliveries(
            registration,
            settings,
            handlers,
            stats=self.stats,
            runs=self.runs,
            start=start,
            surroundings=around,
        )
        super().__init__(registration, settings, self.deliveries.claims)
        self._parts = [self.deliveries, self.deliveries.endpoints, self.runs]

    def learn_beat(self, *, first: bool) -> None:
        """Let the deliveries learn what a sign of life has brought back."""
        self.deliveries.learn_beat(first=first)

    def report(self, *, leaving: bool = False) -> None:
        """Send the worker's metrics."""
        present = WorkerGauges(in_hand=len(self), breakers_open=self.deliveries.endpoints.breakers_open)
        self._reporter.send(report_of(self._registration.name, self.stats, present, leaving=leaving))

    def drained(self, *, is_handed_back: bool) -> dict[str, int]:  # noqa: ARG002 - what is in hand is called again
        """Return the counts of the worker."""
        return {"in_hand": len(self), **self.stats.counts()}
