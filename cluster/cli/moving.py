"""The commands that move work: switch, from one cluster to another, and leave, from one node to others."""

import asyncio
import socket
import time
from collections.abc import Sequence
from typing import Annotated

import typer

from cluster.cli.options import WAIT_S_MAX
from cluster.cli.output import DONE, NOT_DONE, Json, print_json, print_table, tell
from cluster.cli.store import with_session
from cluster.holding import SILENT_S
from cluster.leaving import leave as move_away
from cluster.settings import load_settings
from sql.holders import Holder, list_holders
from sql.leadership import hand_over, read_policy
from sql.session import Session
from timers.refusal import InvalidTimer, shortened

POLL_S = 0.1
LEASE_S = 10.0  # the cluster that is named has so long to take the lead; then anybody may


def switch(
    cluster_id: Annotated[str, typer.Argument(metavar="CLUSTER_ID", help="The cluster that shall fire from now on.")],
    wait_s: Annotated[
        float,
        typer.Option(
            "--wait",
            metavar="SECONDS",
            min=0,
            max=WAIT_S_MAX,
            help="Wait so long for its shards, then until they keep all slots.",
        ),
    ] = 30.0,
    as_json: Json = False,
) -> int:
    """Let another cluster on this database fire, once as many of its shards stand by as are wanted."""

    async def do(session: Session) -> int:
        if not await _until_it_stands_by(session, cluster_id, wait_s):
            return NOT_DONE
        began_s = time.monotonic()
        switched = await hand_over(session, cluster_id, lease_s=LEASE_S)
        serving = await _until_it_serves(session, cluster_id, wait_s)
        took_s = time.monotonic() - began_s
        if as_json:
            print_json({"cluster_id": cluster_id, "switched": switched, "serving": serving, "took_s": round(took_s, 3)})
        else:
            print_table("", ["cluster", "shards serving", "took"], [(cluster_id, serving, f"{took_s:.2f} s")])
        return DONE if serving else NOT_DONE

    return with_session(do)


def leave(
    within_s: Annotated[
        float, typer.Option("--within", metavar="SECONDS", min=0, max=WAIT_S_MAX, help="At the latest.")
    ] = 25.0,
) -> int:
    """Have this host's shards moved to other nodes before it goes: what a Kubernetes preStop hook runs."""
    settings, host = load_settings(), socket.gethostname()

    async def do(session: Session) -> int:
        ended = await move_away(session, settings, host, within_s=within_s, tell=tell)
        tell(f"{ended} shards were still on {host} and have been ended" if ended else f"no shard is left on {host}")
        return DONE

    return with_session(do)


async def _until_it_stands_by(session: Session, cluster_id: str, wait_s: float) -> bool:
    """Wait until a cluster has as many living shards as are wanted; with fewer it would fire late.

    errors:  InvalidTimer  it has none at all, or is on hold
    """
    deadline, told = time.monotonic() + wait_s, False
    while True:
        holders, wanted = await list_holders(session), (await read_policy(session)).shards_wanted
        ready = sum(_is_ready(holder, cluster_id) for holder in holders)
        if ready >= wanted:
            return True
        missing = f"cluster {shortened(cluster_id)} has {ready} of {wanted} shards ready"
        if why := next((h.held_why for h in holders if h.cluster_id == cluster_id and h.held_why), None):
            raise InvalidTimer(f"cluster {shortened(cluster_id)} is on hold, {why}; `shardclock release` says more")
        if time.monotonic() >= deadline:
            if not ready:
                raise InvalidTimer(f"{_unknown(cluster_id, holders)}; start it, or name another")
            tell(f"shardclock: {missing}, so nothing was switched: wait longer, or `shardclock scale {ready}` first")
            return False
        if not told:
            tell(f"{missing if ready else _unknown(cluster_id, holders)}; waiting")
            told = True
        await asyncio.sleep(POLL_S)


def _unknown(cluster_id: str, holders: Sequence[Holder]) -> str:
    known = sorted({holder.cluster_id for holder in holders})
    there = f"there are {', '.join(known)}" if known else "no cluster runs on this database"
    return f"cluster {shortened(cluster_id)} has no shard that is ready: {there}"


async def _until_it_serves(session: Session, cluster_id: str, wait_s: float) -> int:
    """Wait until every slot is kept by the cluster; how many shards keep them comes back, 0 if they don't in time."""
    deadline = time.monotonic() + wait_s
    while True:
        serving = [holder for holder in await list_holders(session) if holder.shard is not None]
        if serving and all(holder.cluster_id == cluster_id for holder in serving):
            return len(serving)
        if time.monotonic() >= deadline:
            return 0
        await asyncio.sleep(POLL_S)


def _is_ready(holder: Holder, cluster_id: str) -> bool:
    return holder.cluster_id == cluster_id and holder.silent_s < SILENT_S and holder.held_why is None
