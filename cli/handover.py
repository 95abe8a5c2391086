"""The commands that move work to another cluster (`switch`) or to other nodes (`leave`)."""

import asyncio
import socket
import sys
import time
from collections import Counter
from collections.abc import Sequence
from functools import partial
from typing import Annotated

import typer

from shardclock.api.codes import NOT_DONE
from shardclock_server.cli.options import WAIT_S_MAX
from shardclock_server.cli.output import DONE, Json, print_json, print_note, print_table
from shardclock_server.cli.recording import record_done
from shardclock_server.cli.session import with_session
from shardclock_server.cluster.drain import leave as move_away
from shardclock_server.cluster.settings import load_settings
from shardclock_server.service.hold import living_of
from shardclock_server.service.wording import counted
from shardclock_server.sql.cluster.holders import ENGINE, ROLES, SHARD, Holder, list_holders
from shardclock_server.sql.cluster.leadership import hand_over, read_policy
from shardclock_server.sql.metrics.processes import measure_processes
from shardclock_server.sql.session import Session
from shardclock_server.timers.refusal import Refusal, shortened

POLL_S = 0.1
LEASE_S = 10.0  # For this time, only the named cluster may become the leader.


def switch(
    cluster_id: Annotated[str, typer.Argument(metavar="CLUSTER_ID", help="The cluster that gets the lead.")],
    wait_s: Annotated[
        float,
        typer.Option(
            "--wait",
            metavar="SECONDS",
            min=0,
            max=WAIT_S_MAX,
            help="The limit of each wait: until shards and engines are ready, and until they have all slots.",
        ),
    ] = 30.0,
    as_json: Json = False,
) -> int:
    """Give the lead to another cluster on this database, once that cluster's keepers are ready."""

    silent_s = load_settings().coordinator.silent_s

    async def do(session: Session) -> int:
        if not await _until_it_stands_by(session, cluster_id, wait_s, silent_s=silent_s):
            return NOT_DONE
        began_s = time.monotonic()
        switched = await hand_over(session, cluster_id, lease_s=LEASE_S)
        await record_done(session)
        serving = await _until_it_serves(session, cluster_id, wait_s)
        took_s = time.monotonic() - began_s
        if as_json:
            counts = {"serving": serving[SHARD], "engines_serving": serving.get(ENGINE, 0)}
            print_json({"cluster_id": cluster_id, "switched": switched, **counts, "took_s": round(took_s, 3)})
        else:
            columns = ["cluster", *(f"{role}s serving" for role in serving), "took"]
            print_table("", columns, [(cluster_id, *serving.values(), f"{took_s:.2f} s")])
        return DONE if all(serving.values()) else NOT_DONE

    return with_session(do)


def leave(
    within_s: Annotated[
        float,
        typer.Option(
            "--within",
            metavar="SECONDS",
            min=0,
            max=WAIT_S_MAX,
            help="The time after which the shards that are still on this host are ended.",
        ),
    ] = 25.0,
    yes: Annotated[
        bool, typer.Option("--yes", help="Don't ask for a confirmation if only this host has keepers.")
    ] = False,
) -> int:
    """Move this host's shards to other nodes before the host leaves; a Kubernetes preStop hook runs this command."""
    settings, host = load_settings(), socket.gethostname()
    if (
        not yes
        and (
            last := with_session(
                partial(_last_keepers, host=host, silent_s=settings.coordinator.silent_s), is_read_only=True
            )
        )
        and not _confirms(last, host)
    ):
        return NOT_DONE

    async def do(session: Session) -> int:
        ended = await move_away(session, settings, host, within_s=within_s, tell=print_note)
        print_note(
            f"ended {_kinds(ended)}, which were still on {host}"
            if ended
            else f"no shard, worker or engine is left on {host}"
        )
        return DONE

    return with_session(do)


async def _last_keepers(session: Session, host: str, silent_s: float) -> Counter[str]:
    """Count the live keepers on a host by role, if no other host has live keepers; otherwise return an empty count."""
    living = living_of(await list_holders(session), silent_s)
    return Counter(holder.role for holder in living if all(it.host == host for it in living))


def _kinds(keepers: Counter[str]) -> str:
    """Format the numbers of keepers by role, as in: 2 shards, 2 workers, 1 engine."""
    return ", ".join(counted(keepers[role], role) for role in ROLES if keepers[role])


def _confirms(last: Counter[str], host: str) -> bool:
    """Ask the user for a confirmation; refuse if there is no terminal."""
    found = f"{_kinds(last)} on {host}, and no keepers elsewhere: no timer fires until other shards start"
    if not sys.stdin.isatty():
        print_note(f"shardclock: {found}; add --yes to move the shards anyway")
        return False
    return typer.confirm(f"{found}. Continue?", err=True)


async def _until_it_stands_by(session: Session, cluster_id: str, wait_s: float, *, silent_s: float) -> bool:
    """Wait until a cluster has the wanted numbers of live shards and engines.

    After a switch, a cluster with fewer shards would fire late, and without engines no instance would advance.

    errors:  Refusal  the cluster has no shard, or is on hold
    """
    deadline, is_printed = time.monotonic() + wait_s, False
    while True:
        wanted, holders = await _wanted(session), await list_holders(session)
        ready = Counter(
            h.role for h in living_of(holders, silent_s) if h.cluster_id == cluster_id and h.foreign_reason is None
        )
        short = next((role for role, number in wanted.items() if ready[role] < number), None)
        if short is None:
            return True
        if why := next((h.foreign_reason for h in holders if h.cluster_id == cluster_id and h.foreign_reason), None):
            raise Refusal(f"cluster {shortened(cluster_id)} is on hold, {why}; see `shardclock release`")
        missing = f"cluster {shortened(cluster_id)} has {ready[short]} of {wanted[short]} {short}s ready"
        if time.monotonic() >= deadline:
            if not ready[SHARD]:
                raise Refusal(f"{_unknown(cluster_id, holders)}; start the cluster, or name another one")
            fewer = f", or `shardclock scale {short}s={ready[short]}` first" if ready[short] else ""
            print_note(f"shardclock: {missing}, so the lead was not moved: wait longer{fewer}")
            return False
        if not is_printed:
            print_note(f"{missing if ready[SHARD] else _unknown(cluster_id, holders)}; waiting")
            is_printed = True
        await asyncio.sleep(POLL_S)


async def _wanted(session: Session) -> dict[str, int]:
    """Return the wanted number of shards, and the wanted number of engines if a process is deployed."""
    wanted = {SHARD: (await read_policy(session, SHARD)).wanted}
    if engines := (await measure_processes(session, most=1)).engines_wanted:
        wanted[ENGINE] = engines
    return wanted


def _unknown(cluster_id: str, holders: Sequence[Holder]) -> str:
    known = sorted({holder.cluster_id for holder in holders})
    there = f"the clusters on this database are {', '.join(known)}" if known else "no cluster runs on this database"
    return f"cluster {shortened(cluster_id)} has no shard that is ready: {there}"


async def _until_it_serves(session: Session, cluster_id: str, wait_s: float) -> dict[str, int]:
    """Wait until this cluster's shards have all slots and, if engines are wanted, its engines have all slots, too.

    shape:   for each role, the number of keepers with slots; 0 while a keeper of another cluster has a slot of this
             role
    """
    deadline = time.monotonic() + wait_s
    while True:
        serving, holders = dict.fromkeys(await _wanted(session), 0), await list_holders(session)
        for role in serving:
            keepers = [holder for holder in holders if holder.role == role and holder.part is not None]
            if all(holder.cluster_id == cluster_id for holder in keepers):
                serving[role] = len(keepers)
        if all(serving.values()) or time.monotonic() >= deadline:
            return serving
        await asyncio.sleep(POLL_S)
