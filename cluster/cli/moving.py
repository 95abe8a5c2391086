"""The commands that move work: switch, from one cluster to another, and leave, from one node to others."""

import asyncio
import socket
import time
from typing import Annotated

import typer

from cluster.cli.output import DONE, NOT_DONE, Json, print_json, print_table, tell
from cluster.cli.store import with_session
from cluster.leaving import leave as move_away
from cluster.settings import load_settings
from sql.holders import Holder, list_holders
from sql.leadership import hand_over
from sql.session import Session
from timers.refusal import InvalidTimer, shortened

POLL_S = 0.1
LEASE_S = 10.0  # the cluster that is named has so long to take the lead; then anybody may


def switch(
    cluster_id: Annotated[str, typer.Argument(metavar="CLUSTER_ID", help="The cluster that shall fire from now on.")],
    wait_s: Annotated[float, typer.Option("--wait", metavar="SECONDS", help="Wait until it keeps every slot.")] = 30.0,
    as_json: Json = False,
) -> int:
    """Let another cluster on this database fire, which stands by with its shards started."""

    async def do(session: Session) -> int:
        began_s = time.monotonic()
        await _require_ready(session, cluster_id)
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
    within_s: Annotated[float, typer.Option("--within", metavar="SECONDS", min=0, help="At the latest.")] = 25.0,
) -> int:
    """Have this host's shards moved to other nodes before it goes: what a Kubernetes preStop hook runs."""
    settings, host = load_settings(), socket.gethostname()

    async def do(session: Session) -> int:
        ended = await move_away(session, settings, host, within_s=within_s, tell=tell)
        tell(f"{ended} shards were still on {host} and have been ended" if ended else f"no shard is left on {host}")
        return DONE

    return with_session(do)


async def _require_ready(session: Session, cluster_id: str) -> None:
    """Refuse to give the lead to a cluster that has nobody to do the work."""
    holders = await list_holders(session)
    if any(_is_ready(holder, cluster_id) for holder in holders):
        return
    known = sorted({holder.cluster_id for holder in holders})
    there = f"there are {', '.join(known)}" if known else "no cluster runs on this database"
    raise InvalidTimer(
        f"cluster {shortened(cluster_id)} has no shard that is ready: {there}; start it, or name another"
    )


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
    return holder.cluster_id == cluster_id and holder.silent_s < 5.0
