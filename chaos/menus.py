"""Which faults a run draws from, and how often, on which cluster."""

from __future__ import annotations

from collections.abc import Sequence

from chaos.plan import Menu

# A shard that was killed is back in a second or two; the next fault should find both.
_SHARDS = [
    Menu("kill shard", 14, rest_s=4.0),
    Menu("kill shard in a claim", 3, rest_s=4.0),
    Menu("kill shard in a firing", 3, rest_s=4.0),
    Menu("kill shard after a firing", 3, rest_s=4.0),
    Menu("freeze shard before a claim", 1, 1.0, 4.0, rest_s=5.0),
    Menu("freeze shard after a claim", 1, 1.0, 4.0, rest_s=5.0),
    Menu("freeze shard in a firing", 1, 1.0, 4.0, rest_s=5.0),
    Menu("freeze shard past its lease", 1, 10.5, 12.0, rest_s=5.0),
    Menu("cut shard off", 2, 2.0, 8.0, rest_s=5.0),
    Menu("half-open shard", 1, 2.0, 8.0, rest_s=5.0),
    Menu("slow shard", 1, 2.0, 6.0),
    Menu("cut clients off", 2, 1.0, 4.0, rest_s=3.0),
    Menu("lose a firing's answer", 1, rest_s=3.0),
    Menu("lose a claim's answer", 1, rest_s=3.0),
    Menu("lose clients' commit answers", 1, rest_s=2.0),
    Menu("poison", 1, rest_s=2.0),
]
# Short rests: timers fire beside these as if nothing were broken.
_WORKERS = [
    Menu("kill worker", 2, rest_s=2.0),
    Menu("kill handler", 2, rest_s=1.0),
    Menu("freeze worker", 2, 1.0, 7.0, rest_s=2.0),  # beyond 5 s it is declared dead
]
_ENGINES = [
    Menu("kill engine", 2, rest_s=1.0),
    Menu("kill engine in a step", 2, rest_s=1.0),
    Menu("freeze engine before a step", 2, 1.0, 7.0, rest_s=1.0),  # as a worker
    Menu("cut engine off", 1, 1.0, 4.0, rest_s=1.0),
    Menu("lose a step's answer", 2, rest_s=0.5),
]
_STORE = [
    Menu("kill backend", 1, rest_s=6.0),
    Menu("kill postmaster", 1, 0.0, 2.0, rest_s=6.0),
    Menu("stop Postgres fast", 1, 0.0, 2.0, rest_s=6.0),
    Menu("stop Postgres at once", 1, 0.0, 2.0, rest_s=6.0),
    Menu("lock table", 1, 2.0, 4.0, rest_s=5.0),
    Menu("use up connections", 1, 2.0, 4.0, rest_s=3.0),
]
_RAY = [
    Menu("kill coordinator", 2, rest_s=3.0),
    Menu("kill raylet", 1, rest_s=4.0),
    Menu("kill GCS", 1, rest_s=4.0),
    Menu("kill host", 1, rest_s=4.0),
    Menu("freeze raylet", 1, 3.0, 6.0, rest_s=3.0),
    Menu("freeze coordinator", 1, 2.0, 6.0, rest_s=3.0),
]
# What a delivery can lose half way: its worker, its handler's process, the shard that fires it, Postgres.
DELIVERING = (
    Menu("kill worker", rest_s=2.0),
    Menu("kill handler", rest_s=1.0),
    Menu("kill shard", rest_s=2.0),
    Menu("kill postmaster", 1, 0.0, 1.0, rest_s=4.0),
)
# What a run of a job can lose: its worker, its process, the shard that fires its start, who leads, Postgres.
RUNNING = (
    Menu("kill worker", rest_s=2.0),
    Menu("kill run", 2, rest_s=1.0),  # often there is none: those before have just been killed
    Menu("kill shard", rest_s=2.0),
    Menu("kill coordinator", rest_s=3.0),
    Menu("kill postmaster", 1, 0.0, 1.0, rest_s=4.0),
)
# And the whole Ray. A new one needs half a minute until runs have their processes again.
HEADS = (Menu("kill raylet", rest_s=60.0), Menu("kill GCS", rest_s=60.0))
# Long ones, which a run of minutes has time for once or twice.
_LONG = [
    Menu("stop Postgres at once", 1, 60.0, 60.0, rest_s=15.0),
    Menu("lock table", 1, 30.0, 30.0, rest_s=10.0),
    Menu("hold snapshot", 1, 60.0, 120.0, rest_s=1.0),
    Menu("100,000 in one instant", 1, rest_s=12.0),
]


def menu(*, ray: bool, length_s: float, workers: bool = True, engines: bool = True) -> Sequence[Menu]:
    """Choose the faults for a run: all that its cluster can have, the long ones where there is time for them."""
    return [
        *_SHARDS,
        *(_WORKERS if workers else []),
        *(_ENGINES if engines else []),
        *_STORE,
        *(_RAY if ray else []),
        *(_LONG if length_s >= 400 else []),
    ]
