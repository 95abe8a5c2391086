"""Cut, hold and slow connections, and lose single answers."""

from __future__ import annotations

import random
import time

from chaos.faults.fault import Hit
from chaos.proxy import ProxiedConnection
from chaos.sandbox import Sandbox


async def cut_shard(sandbox: Sandbox, chance: random.Random, for_s: float) -> Hit:
    """Reset a shard's connections, and refuse new connections for a while."""
    keeper = chance.choice(await sandbox.shards())
    began_at = time.time()
    await sandbox.proxy.cut(keeper.owns, for_s=for_s)
    return Hit((keeper.holder,), began_at)


async def half_open_shard(sandbox: Sandbox, chance: random.Random, for_s: float) -> Hit:
    """Hold all traffic of a shard for a while, without closing its connections."""
    keeper = chance.choice(await sandbox.shards())
    began_at = time.time()
    await sandbox.proxy.half_open(keeper.owns, for_s=for_s)
    return Hit((keeper.holder,), began_at)


async def slow_shard(sandbox: Sandbox, chance: random.Random, for_s: float) -> Hit:
    """Delay all traffic of a shard."""
    keeper, delay_s = chance.choice(await sandbox.shards()), chance.uniform(0.02, 0.2)
    await sandbox.proxy.slow(keeper.owns, delay_s=delay_s, for_s=for_s)
    return Hit(detail={"holder": keeper.holder, "delay_s": round(delay_s, 3)})


async def cut_clients(sandbox: Sandbox, _: random.Random, for_s: float) -> Hit:
    """Reset the clients' connections, and refuse new connections for a while."""
    await sandbox.proxy.cut(_is_client, for_s=for_s)
    return Hit()


async def lose_fire_reply(sandbox: Sandbox, chance: random.Random, _: float) -> Hit:
    """Lose the answer to a committed firing."""
    keeper = chance.choice(await sandbox.shards())
    sandbox.proxy.lose_reply(keeper.owns, "fire_due")
    return Hit(detail={"holder": keeper.holder})


async def lose_claim_reply(sandbox: Sandbox, chance: random.Random, _: float) -> Hit:
    """Lose the answer to a committed claim."""
    keeper = chance.choice(await sandbox.shards())
    sandbox.proxy.lose_reply(keeper.owns, "claim_due")
    return Hit(detail={"holder": keeper.holder})


async def lose_commit_replies(sandbox: Sandbox, _: random.Random, __: float) -> Hit:
    """Lose the answer to the next COMMIT of every client."""
    sandbox.proxy.lose_reply(_is_client, "commit")
    return Hit()


def _is_client(link: ProxiedConnection) -> bool:
    return link.application == "chaos client"
