"""Choose the faults of a run and their frequency for a cluster."""

from __future__ import annotations

from collections.abc import Sequence

from chaos.plan import FaultOption

# A killed shard is replaced after two seconds. The pause after this fault is longer, so that both shards run again when
# the next fault begins.
_SHARDS = [
    FaultOption("kill shard", 14, rest_s=4.0),
    FaultOption("kill shard in a claim", 3, rest_s=4.0),
    FaultOption("kill shard in a firing", 3, rest_s=4.0),
    FaultOption("kill shard after a firing", 3, rest_s=4.0),
    FaultOption("freeze shard before a claim", 1, 1.0, 4.0, rest_s=5.0),
    FaultOption("freeze shard after a claim", 1, 1.0, 4.0, rest_s=5.0),
    FaultOption("freeze shard in a firing", 1, 1.0, 4.0, rest_s=5.0),
    FaultOption("freeze shard past its lease", 1, 10.5, 12.0, rest_s=5.0),
    FaultOption("cut shard off", 2, 2.0, 8.0, rest_s=5.0),
    FaultOption("half-open shard", 1, 2.0, 8.0, rest_s=5.0),
    FaultOption("slow shard", 1, 2.0, 6.0),
    FaultOption("cut clients off", 2, 1.0, 4.0, rest_s=3.0),
    FaultOption("lose a firing's answer", 1, rest_s=3.0),
    FaultOption("lose a claim's answer", 1, rest_s=3.0),
    FaultOption("lose clients' commit answers", 1, rest_s=2.0),
    FaultOption("poison", 1, rest_s=2.0),
]
# The pauses after faults of workers can be short, because these faults do not delay timers.
_WORKERS = [
    FaultOption("kill worker", 2, rest_s=2.0),
    FaultOption("kill handler", 2, rest_s=1.0),
    FaultOption("freeze worker", 2, 1.0, 7.0, rest_s=2.0),  # A worker is declared dead after 5 s.
]
_ENGINES = [
    FaultOption("kill engine", 2, rest_s=1.0),
    FaultOption("kill engine in a step", 2, rest_s=1.0),
    # An engine is declared dead after the same time as a worker.
    FaultOption("freeze engine before a step", 2, 1.0, 7.0, rest_s=1.0),
    FaultOption("cut engine off", 1, 1.0, 4.0, rest_s=1.0),
    FaultOption("lose a step's answer", 2, rest_s=0.5),
]
_STORE = [
    FaultOption("kill backend", 1, rest_s=6.0),
    FaultOption("kill postmaster", 1, 0.0, 2.0, rest_s=6.0),
    FaultOption("stop Postgres fast", 1, 0.0, 2.0, rest_s=6.0),
    FaultOption("stop Postgres at once", 1, 0.0, 2.0, rest_s=6.0),
    FaultOption("lock table", 1, 2.0, 4.0, rest_s=5.0),
    FaultOption("use up connections", 1, 2.0, 4.0, rest_s=3.0),
]
_RAY = [
    FaultOption("kill coordinator", 2, rest_s=3.0),
    FaultOption("kill raylet", 1, rest_s=4.0),
    FaultOption("kill GCS", 1, rest_s=4.0),
    FaultOption("kill host", 1, rest_s=4.0),
    FaultOption("freeze raylet", 1, 3.0, 6.0, rest_s=3.0),
    FaultOption("freeze coordinator", 1, 2.0, 6.0, rest_s=3.0),
]
_LOCAL = [
    FaultOption("kill local host", 2, rest_s=4.0),
    FaultOption("kill fork server", 1, rest_s=3.0),
    FaultOption("freeze local host", 1, 2.0, 6.0, rest_s=3.0),
    FaultOption("freeze fork server", 1, 2.0, 6.0, rest_s=3.0),
]
_UP = [
    FaultOption("kill up", 1, 0.5, 1.5, rest_s=6.0),
]
# The faults of one kind of cluster only.
_OF = {"local": [*_LOCAL, *_UP], "ray": [*_RAY, *_UP], "standby": [*_LOCAL, *_RAY, *_UP], "processes": []}
# The faults of a run of deliveries: a delivery can lose its worker, its handler's process, its shard, or Postgres.
DELIVERY_FAULTS = (
    FaultOption("kill worker", rest_s=2.0),
    FaultOption("kill handler", rest_s=1.0),
    FaultOption("kill shard", rest_s=2.0),
    FaultOption("kill postmaster", 1, 0.0, 1.0, rest_s=4.0),
)
# The faults of a run of jobs: a job's run can lose its worker, its process, its shard, the coordinator, or Postgres.
JOB_FAULTS = (
    FaultOption("kill worker", rest_s=2.0),
    FaultOption("kill run", 2, rest_s=1.0),  # often no run is active, because earlier faults have killed the runs
    FaultOption("kill shard", rest_s=2.0),
    FaultOption("kill coordinator", rest_s=3.0),
    FaultOption("kill postmaster", 1, 0.0, 1.0, rest_s=4.0),
)
# A kill of the raylet or the GCS ends all of Ray. Half a minute after the start of a new Ray, runs have processes
# again.
RAY_FAULTS = (FaultOption("kill raylet", rest_s=60.0), FaultOption("kill GCS", rest_s=60.0))
# Long faults: a run of a few minutes has time for one or two of these faults.
_LONG = [
    FaultOption("stop Postgres at once", 1, 60.0, 60.0, rest_s=15.0),
    FaultOption("lock table", 1, 30.0, 30.0, rest_s=10.0),
    FaultOption("hold snapshot", 1, 60.0, 120.0, rest_s=1.0),
    FaultOption("100,000 in one instant", 1, rest_s=12.0),
]


def fault_options(
    cluster: str, *, length_s: float, workers: bool = True, engines: bool = True
) -> Sequence[FaultOption]:
    """Choose the faults of a run: all faults that the cluster supports, and the long faults in a run of 400 s or more.

    shape:   `cluster` is one of `chaos.clusters.CLUSTERS`
    """
    return [
        *_SHARDS,
        *(_WORKERS if workers else []),
        *(_ENGINES if engines else []),
        *_STORE,
        *_OF[cluster],
        *(_LONG if length_s >= 400 else []),
    ]
