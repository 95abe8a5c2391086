"""What a worker takes from the world around it: the time, chance, and a way out for webhooks."""

import random
from dataclasses import dataclass, field

from keepers.clock import PostgresClock
from workers.attempts import Jitter
from workers.endpoint_queue import Send


@dataclass(frozen=True, slots=True)
class Surroundings:
    """Hold what is the world's in production; a test whose clock it moves gives a world of its own.

    Without `send`, webhooks are sent over HTTP.
    """

    clock: PostgresClock = field(default_factory=PostgresClock)
    jitter: Jitter = random.uniform
    send: Send | None = None
