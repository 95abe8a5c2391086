"""Check the cluster: its shards, leader, workers and engines, and whether timers fire on time."""

from collections.abc import Iterator, Sequence

from shardclock_server.service.finding import Finding, Level
from shardclock_server.service.hold import living_of
from shardclock_server.service.unserved import line_of
from shardclock_server.service.wording import counted, span_of
from shardclock_server.sql.cluster.holders import SHARD, list_holders
from shardclock_server.sql.deliveries.unserved import UnservedTarget, find_unserved_targets
from shardclock_server.sql.metrics.measures import ClusterMeasures, measure_cluster
from shardclock_server.sql.metrics.processes import measure_processes
from shardclock_server.sql.session import Session
from shardclock_server.timers.model import SLOTS

LATE_S, FAULT_S = 1.0, 30.0  # the thresholds of the event cluster.lag and of the alert ShardclockOverdueWhileShardsLive


async def check_cluster(session: Session, *, silent_s: float) -> list[Finding]:
    """Check the cluster.

    units:   a holder without a heartbeat for `silent_s` is treated as dead
    errors:  StatementRefused  the role may not read the tables
             StoreUnavailable  Postgres did not answer within the timeout
    """
    measured = await measure_cluster(session)
    processes = await measure_processes(session)
    shards = await list_holders(session, SHARD)
    silent = len(shards) - len(living_of(shards, silent_s))
    return [
        _shards(measured, silent=silent),
        _leader(measured),
        _keepers("workers", measured.workers_alive, measured.workers_wanted),
        _keepers("engines", processes.engines_alive, processes.engines_wanted),
        *_targets(await find_unserved_targets(session)),
        *_punctuality(measured),
    ]


def _shards(it: ClusterMeasures, *, silent: int) -> Finding:
    if it.shards_alive == 0:
        return Finding("shards", Level.FAULT, "no shard serves, so no timer fires: start one with `shardclock up`")
    serve = f"{counted(it.shards_alive, 'shard')} {'serves' if it.shards_alive == 1 else 'serve'}"
    if it.slots_assigned < SLOTS:
        return Finding(
            "shards",
            Level.FAULT,
            f"{serve} {it.slots_assigned} of {SLOTS} slots, so timers of the other slots fire about 3 s late: see"
            " `shardclock status`, and the log of `shardclock up`",
        )
    if silent:
        return Finding(
            "shards",
            Level.WARNING,
            f"{serve} all slots, and {counted(silent, 'shard')} gave no sign of life: see `shardclock status`, and the"
            " log of its node",
        )
    if it.shards_alive < it.shards_wanted:
        return Finding(
            "shards",
            Level.WARNING,
            f"{serve} all slots, and {it.shards_wanted} are wanted: see the log of `shardclock up`, or"
            f" `shardclock scale {it.shards_alive}`",
        )
    return Finding("shards", Level.OK, f"{serve} all slots")


def _leader(it: ClusterMeasures) -> Finding:
    if it.leader_alive:
        return Finding("leader", Level.OK, "a coordinator leads")
    return Finding(
        "leader",
        Level.WARNING,
        "no coordinator leads, so a lost shard is not replaced: start one with `shardclock up`",
    )


def _keepers(role: str, alive: int, wanted: int) -> Finding:
    noun = role.removesuffix("s")
    if not wanted:
        return Finding(role, Level.OK, f"no {noun} is needed")
    if alive == 0:
        return Finding(
            role,
            Level.FAULT,
            f"no {noun} is running, and {wanted} {'is' if wanted == 1 else 'are'} wanted: start a cluster with"
            " `shardclock up`, or see its log",
        )
    if alive < wanted:
        return Finding(
            role,
            Level.WARNING,
            f"{counted(alive, noun)} of {wanted} wanted {'runs' if alive == 1 else 'run'}: see the log of"
            f" `shardclock up`, or `shardclock scale {role}={alive}`",
        )
    return Finding(role, Level.OK, f"{counted(alive, noun)} {'runs' if alive == 1 else 'run'}")


def _targets(unserved: Sequence[UnservedTarget]) -> Iterator[Finding]:
    """Report handlers and jobs that have waiting deliveries, but are not in the app of any running worker."""
    if unserved:
        yield Finding("targets", Level.FAULT, line_of(unserved))


def _punctuality(it: ClusterMeasures) -> Iterator[Finding]:
    """Check that timers fire on time, and that no timers wait for a ramp of 0."""
    if it.oldest_overdue_s <= LATE_S:
        yield Finding("lag", Level.OK, f"no timer is overdue by more than {LATE_S:g} s")
    else:
        is_fault = it.oldest_overdue_s > FAULT_S and not it.is_held and it.ramp_per_s != 0
        yield Finding(
            "lag",
            Level.FAULT if is_fault else Level.WARNING,
            f"the oldest overdue timer is {span_of(it.oldest_overdue_s)} late: {_way_out(it)}",
        )
    if it.ramp_per_s == 0:
        yield Finding(
            "ramp",
            Level.WARNING,
            "a ramp of 0 holds back all timers that an outage left: `shardclock ramp default` fires them",
        )
    else:
        limit = "no limit" if it.ramp_per_s is None else f"a limit of {it.ramp_per_s:,} a second"
        yield Finding("ramp", Level.OK, f"{limit} applies to timers that an outage left")


def _way_out(it: ClusterMeasures) -> str:
    if it.is_held:
        return "the database is on hold, and `shardclock release --yes` ends the hold"
    if it.shards_alive == 0:
        return "start a shard with `shardclock up`"
    if it.ramp_per_s == 0:
        return "a ramp of 0 delays the timer, and `shardclock ramp default` lets it fire"
    return "`shardclock ramp` shows the timers that an outage left, and `shardclock explain KEY` explains one timer"
