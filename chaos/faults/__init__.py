"""Define the faults; each fault is one function, which returns after the end of the fault.

Each function gets the sandbox, a random generator and a duration, and returns the holders that the fault affected.
"""

from __future__ import annotations

from collections.abc import Mapping

from chaos.faults.engines import (
    cut_engine,
    freeze_engine,
    kill_engine,
    kill_engine_in_step,
    lose_step_reply,
    replace_frozen_engine,
)
from chaos.faults.fault import FaultType
from chaos.faults.flood import OVERLOAD_PER_S, herd, overload, poison
from chaos.faults.heads import (
    freeze_fork_server,
    freeze_local_host,
    kill_fork_server,
    lose_head,
    lose_local_host,
    lose_up,
)
from chaos.faults.machine import fill_disk, set_clock
from chaos.faults.network import (
    cut_clients,
    cut_shard,
    half_open_shard,
    lose_claim_reply,
    lose_commit_replies,
    lose_fire_reply,
    slow_shard,
)
from chaos.faults.partitions import PARTITIONS
from chaos.faults.postgres import (
    hold_snapshot,
    kill_backend,
    kill_postmaster,
    lock_table,
    stop_fast,
    stop_immediate,
    use_up_connections,
)
from chaos.faults.processes import (
    declare_dead,
    freeze_process,
    freeze_shard_at,
    jump_clock,
    kill_process,
    kill_shard,
    kill_shard_at,
)
from chaos.faults.workers import freeze_worker, kill_handler, kill_run, kill_worker, replace_frozen_worker

TYPES: Mapping[str, FaultType] = {
    it.name: it
    for it in (
        FaultType("kill shard", "kill", kill_shard, takeover=True),
        FaultType("kill shard in a claim", "kill", kill_shard_at("claim_due", "inside"), takeover=True),
        FaultType("kill shard in a firing", "kill", kill_shard_at("fire_due", "inside"), takeover=True),
        FaultType("kill shard after a firing", "kill", kill_shard_at("fire_due", "after"), takeover=True),
        FaultType(
            "kill coordinator", "kill", kill_process("CoordinatorActor"), disturbs=False, leaderless=True, only="ray"
        ),
        FaultType("kill backend", "store", kill_backend),
        FaultType("kill postmaster", "store", kill_postmaster),
        FaultType("stop Postgres fast", "store", stop_fast),
        FaultType("stop Postgres at once", "store", stop_immediate),
        FaultType("kill raylet", "head", lose_head("raylet "), only="ray"),
        FaultType("kill GCS", "head", lose_head("gcs_server "), only="ray"),
        FaultType("kill host", "head", lose_head("shardclock_server.cluster.host"), only="ray"),
        FaultType("kill up", "head", lose_up, only="up"),
        # The old keepers continue until new keepers have registered; then all slots move at once.
        FaultType("kill local host", "head", lose_local_host, recovers_within_s=1.0, leaderless=True, only="local"),
        FaultType("kill fork server", "kill", kill_fork_server, disturbs=False, only="local"),
        FaultType("freeze shard before a claim", "freeze", freeze_shard_at("claim_due", "before"), takeover=True),
        FaultType("freeze shard after a claim", "freeze", freeze_shard_at("claim_due", "after"), takeover=True),
        FaultType("freeze shard in a firing", "freeze", freeze_shard_at("fire_due", "inside"), takeover=True),
        FaultType("freeze shard past its lease", "freeze", freeze_shard_at("claim_due", "after"), takeover=True),
        FaultType("declare a living shard dead", "cut", declare_dead, takeover=True, only="processes"),
        FaultType("put a shard's clock ahead", "freeze", jump_clock, disturbs=False, only="processes"),
        FaultType("freeze raylet", "freeze", freeze_process("raylet "), disturbs=False, only="ray"),
        FaultType(
            "freeze coordinator",
            "freeze",
            freeze_process("CoordinatorActor"),
            disturbs=False,
            leaderless=True,
            only="ray",
        ),
        FaultType(
            "freeze local host",
            "freeze",
            freeze_local_host,
            disturbs=False,
            leaderless=True,
            only="local",
        ),
        FaultType("freeze fork server", "freeze", freeze_fork_server, disturbs=False, only="local"),
        FaultType("kill worker", "kill", kill_worker, disturbs=False),
        FaultType("kill handler", "kill", kill_handler, disturbs=False),
        FaultType("kill run", "kill", kill_run, disturbs=False, only="ray"),
        FaultType("freeze worker", "freeze", freeze_worker, disturbs=False),
        FaultType("replace a frozen worker", "freeze", replace_frozen_worker, disturbs=False, only="processes"),
        FaultType("kill engine", "kill", kill_engine, disturbs=False),
        FaultType("kill engine in a step", "kill", kill_engine_in_step, disturbs=False),
        FaultType("freeze engine before a step", "freeze", freeze_engine, disturbs=False),
        FaultType("replace a frozen engine", "freeze", replace_frozen_engine, disturbs=False, only="processes"),
        FaultType("cut engine off", "cut", cut_engine, disturbs=False),
        FaultType("lose a step's answer", "cut", lose_step_reply, disturbs=False),
        FaultType("cut shard off", "cut", cut_shard, takeover=True),
        FaultType("half-open shard", "cut", half_open_shard, takeover=True),
        FaultType("slow shard", "cut", slow_shard),
        FaultType("cut clients off", "cut", cut_clients),
        FaultType("lose a firing's answer", "cut", lose_fire_reply),
        FaultType("lose a claim's answer", "cut", lose_claim_reply),
        FaultType("lose clients' commit answers", "cut", lose_commit_replies),
        FaultType("lock table", "lock", lock_table),
        FaultType("hold snapshot", "lock", hold_snapshot, disturbs=False),
        FaultType("use up connections", "lock", use_up_connections),
        FaultType("100,000 in one instant", "load", herd),
        FaultType("Postgres's clock an hour ahead", "clock", set_clock("+1h"), only="processes"),
        FaultType("Postgres's clock an hour back", "clock", set_clock("-1h"), only="processes"),
        FaultType("disk full", "store", fill_disk, only="processes"),
        FaultType("twice the capacity", "load", overload(tenant_id="flood", per_s=OVERLOAD_PER_S), only="processes"),
        FaultType("poison", "poison", poison, disturbs=False),
        *PARTITIONS,
    )
}
