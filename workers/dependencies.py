"""The dependencies of a worker that tests replace: the clock, jitter, the sender of webhooks, and Ray's nodes."""

import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from shardclock.backoff import Jitter
from shardclock_server.keepers.clock import PostgresClock
from shardclock_server.sql.jobs.runs import Begun
from shardclock_server.workers.endpoint_queue import Send
from shardclock_server.workers.machine import Machine
from shardclock_server.workers.run_resources import RunResources

PREFETCH_MAX = 32


def any_node_fits(needs: RunResources) -> bool:  # noqa: ARG001 - the interface
    """Return True: without Ray, no run waits for another node."""
    return True


@dataclass(frozen=True, slots=True)
class Dependencies:
    """The external dependencies of a worker, with the defaults of production; tests replace them.

    shape:   send          sends webhooks; None: webhooks go over HTTP
             has_node      returns whether a node has the resources of a run, used or free
             prefetch_max  at most this number of runs of jobs start before a process is free
             machine       its resources: the worker skips jobs that need more, or GPUs; None: the worker skips no job
             begin_runs    replaces the function that starts runs of jobs
    """

    clock: PostgresClock = field(default_factory=PostgresClock)
    jitter: Jitter = random.uniform
    send: Send | None = None
    has_node: Callable[[RunResources], bool] = any_node_fits
    prefetch_max: int = PREFETCH_MAX
    machine: Machine | None = None
    begin_runs: Callable[..., Awaitable[Begun]] | None = None
