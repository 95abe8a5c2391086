"""One worker: deliveries, the endpoints of webhooks, and runs of jobs."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from shardclock_server.jobs.spec import JobSpec
from shardclock_server.keepers.keeper import Keeper
from shardclock_server.keepers.registration import Registration
from shardclock_server.sql.cluster.holders import Incarnation
from shardclock_server.sql.dsn import Dsn
from shardclock_server.workers.deliveries import Deliveries
from shardclock_server.workers.dependencies import Dependencies
from shardclock_server.workers.hand_over_receiver import HandOverReceiver
from shardclock_server.workers.handler import HandlerSpec
from shardclock_server.workers.process import HandlerProcess
from shardclock_server.workers.run_resources import RunResources
from shardclock_server.workers.runs.process import RunProcess
from shardclock_server.workers.runs.runner import JobRunner, RunLimits
from shardclock_server.workers.settings import WorkerSettings
from shardclock_server.workers.stats import WorkerGauges, WorkerStats, report_of


class Worker(Keeper):
    """Call the targets of due deliveries and execute runs of jobs, until the worker is drained or declared dead."""

    def __init__(
        self,
        incarnation: Incarnation,
        settings: WorkerSettings,
        handlers: Sequence[HandlerSpec],
        dsn: Dsn | str,
        *,
        jobs: Sequence[JobSpec] = (),
        start: Callable[[HandlerSpec], HandlerProcess],
        start_run: Callable[[RunResources], RunProcess],
        dependencies: Dependencies | None = None,
    ) -> None:
        dependencies = dependencies or Dependencies()
        self.stats = WorkerStats(spec.target for spec in handlers)
        incarnation = replace(
            incarnation, targets=[spec.target for spec in handlers], functions=[spec.reference for spec in jobs]
        )
        registration = Registration(
            incarnation, settings, dsn, retry_s=settings.delivery_poll_s, failures=self.stats.failures
        )
        limits = RunLimits(settings.run_places, settings.run_lease_s, settings.delivery_poll_s)
        self.runs = JobRunner(registration, jobs, limits, start=start_run, dependencies=dependencies)
        self.deliveries = Deliveries(
            registration,
            settings,
            handlers,
            stats=self.stats,
            runs=self.runs,
            start=start,
            dependencies=dependencies,
        )
        super().__init__(registration, settings, self.deliveries.claims)
        self.hand_overs = HandOverReceiver(registration.holder, self.deliveries, lease_s=settings.delivery_lease_s)
        # The order of the stop: hand-overs are first, so that deliveries that arrive during the stop are also released.
        self._parts = [self.hand_overs, self.deliveries, self.deliveries.endpoints, self.runs]

    def learn_beat(self, *, first: bool) -> None:
        """Pass the result of a heartbeat to `Deliveries`."""
        self.deliveries.learn_beat(first=first)

    def report(self, *, leaving: bool = False) -> None:
        """Send the worker's metrics."""
        present = WorkerGauges(leased=len(self), breakers_open=self.deliveries.endpoints.breakers_open)
        self._reporter.send(report_of(self._registration.name, self.stats, present, leaving=leaving))

    def drained(self, *, is_handed_back: bool) -> dict[str, int]:  # noqa: ARG002 - leased deliveries are called again
        """Return the counts of the worker."""
        return {"leased": len(self), **self.stats.counts()}
