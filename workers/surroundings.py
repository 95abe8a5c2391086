"""What a worker takes from the world around it: the time, chance, a way out for webhooks, and nodes for runs."""

import random
from collections.abc import Callable
from dataclasses import dataclass, field

from shardclock_server.keepers.clock import PostgresClock
from shardclock_server.workers.attempts import Jitter
from shardclock_server.workers.endpoint_queue import Send
from shardclock_server.workers.needs import Needs

AHEAD_MAX = 32


def any_has_it(needs: Needs) -> bool:  # noqa: ARG001 - what is asked for makes no difference
    """Say that there is a node that has what a run needs."""
    return True


@dataclass(frozen=True, slots=True)
class Surroundings:
    """Hold what is the world's in production; a test whose clock it moves gives a world of its own.

    Without `send`, webhooks are sent over HTTP. `has_node` says whether some node has what a run needs, even if
    others use it now. Up to `ahead_max` runs of jobs are begun ahead of their places, if the machine is fast enough.
    """

    clock: PostgresClock = field(default_factory=PostgresClock)
    jitter: Jitter = random.uniform
    send: Send | None = None
    has_node: Callable[[Needs], bool] = any_has_it
    ahead_max: int = AHEAD_MAX
