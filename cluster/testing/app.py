"""A user's app in the test's own process."""

from collections.abc import Collection
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from typing import Self

from shardclock import Handler, Job, describe, describe_jobs, find_declared
from shardclock.refusal import shown
from shardclock_server.jobs.spec import JobSpec, check_rule
from shardclock_server.sql.deliveries.handlers import declare_handlers
from shardclock_server.sql.jobs.declare import declare_jobs
from shardclock_server.sql.session import Session
from shardclock_server.workers.handler import HandlerSpec


@dataclass(frozen=True, slots=True)
class AppHere:
    """The handlers and jobs of an app: the app's declarations, and specs for a worker."""

    handlers: dict[str, Handler]
    jobs: dict[str, Job]

    @classmethod
    def found(cls, modules: str) -> Self:
        """Import an app; its name has the form that `shardclock up --app` accepts.

        If no name is given, the app is empty.

        errors:  InvalidHandler  the app can't be imported, declares nothing, or has an invalid declaration.
                 InvalidJob      a job has a rule that is refused.
                 TypeError       `modules` is no text.
        """
        if not isinstance(modules, str):
            raise TypeError(
                f"app={shown(modules)} is refused: it must be a text, such as 'orders' or 'orders,mail.jobs'"
            )
        if not modules:
            return cls({}, {})
        found = find_declared(modules.split(","))
        app = cls(found.handlers, found.jobs)
        now = datetime.now(UTC)
        for job in app.job_specs:
            check_rule(job, now=now)
        return app

    def with_jobs(self, chosen: str | Collection[str] | None) -> Self:
        """Return the app with only the jobs that match a name or pattern; None keeps all jobs.

        errors:  ValueError  a name or pattern matches no job.
                 TypeError   a name or pattern is not a text.
        """
        if chosen is None:
            return self
        patterns = [chosen] if isinstance(chosen, str) or not isinstance(chosen, Collection) else list(chosen)
        for pattern in patterns:
            if not isinstance(pattern, str):
                raise TypeError(f"jobs={shown(pattern)} is refused: it must be a job's name or a pattern of names")
            if not any(fnmatchcase(job.name, pattern) for job in self.jobs.values()):
                names = ", ".join(sorted(job.name for job in self.jobs.values())) or "none"
                raise ValueError(f"jobs={pattern!r} is no job of the app; its jobs are: {names}")
        jobs = {
            key: job for key, job in self.jobs.items() if any(fnmatchcase(job.name, pattern) for pattern in patterns)
        }
        return replace(self, jobs=jobs)

    @property
    def specs(self) -> list[HandlerSpec]:
        """Return a spec for each handler; a worker reads specs, not declarations."""
        return [HandlerSpec.of(it) for it in describe(self.handlers.values())]

    @property
    def unpaced_specs(self) -> list[HandlerSpec]:
        """Return the handlers without rate limits, because with a stopped clock a limit would allow only one call."""
        return [replace(it, policy=replace(it.policy, rate_per_s=None)) for it in self.specs]

    @property
    def job_specs(self) -> list[JobSpec]:
        """Return a spec for each job; a worker reads specs, not declarations."""
        return [JobSpec.of(it) for it in describe_jobs(self.jobs.values())]

    async def declare(self, session: Session) -> None:
        """Declare the handlers and jobs in the database, as `shardclock up` does.

        errors:  StoreUnavailable  the outcome is unknown: call again
        """
        await declare_handlers(session, [it.declared() for it in self.specs])
        await declare_jobs(session, self.job_specs)
