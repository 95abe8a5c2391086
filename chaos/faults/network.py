"""The network cut, half-open, slow; single answers lost."""

from __future__ import annotations

import random

from chaos.faults.fault import Hit
from chaos.proxy import Link
from chaos.stage import Stage


async def cut_shard(stage: Stage, chance: random.Random, for_s: float) -> Hit:
    """Break a shard's connections off, and refuse it new ones for a while."""
    place = chance.choice(await stage.shards())
    await stage.proxy.cut(place.owns, for_s=for_s)
    return Hit((place.holder,))


async def half_open_shard(stage: Stage, chance: random.Random, for_s: float) -> Hit:
    """Let nothing of a shard's through for a while, and tell nobody."""
    place = chance.choice(await stage.shards())
    await stage.proxy.half_open(place.owns, for_s=for_s)
    return Hit((place.holder,))


async def slow_shard(stage: Stage, chance: random.Random, for_s: float) -> Hit:
    """Hold up all that a shard says and hears."""
    place, delay_s = chance.choice(await stage.shards()), chance.uniform(0.02, 0.2)
    await stage.proxy.slow(place.owns, delay_s=delay_s, for_s=for_s)
    return Hit(detail={"holder": place.holder, "delay_s": round(delay_s, 3)})


async def cut_clients(stage: Stage, _: random.Random, for_s: float) -> Hit:
    """Break the clients' connections off, and refuse new ones for a while."""
    await stage.proxy.cut(_is_client, for_s=for_s)
    return Hit()


async def lose_fire_reply(stage: Stage, chance: random.Random, _: float) -> Hit:
    """Lose the answer to a firing that has committed."""
    place = chance.choice(await stage.shards())
    stage.proxy.lose_reply(place.owns, "fire_due")
    return Hit(detail={"holder": place.holder})


async def lose_claim_reply(stage: Stage, chance: random.Random, _: float) -> Hit:
    """Lose the answer to a claim that has committed."""
    place = chance.choice(await stage.shards())
    stage.proxy.lose_reply(place.owns, "claim_due")
    return Hit(detail={"holder": place.holder})


async def lose_commit_replies(stage: Stage, _: random.Random, __: float) -> Hit:
    """Lose the answer to the next COMMIT of every client."""
    stage.proxy.lose_reply(_is_client, "commit")
    return Hit()


def _is_client(link: Link) -> bool:
    return link.application == "chaos client"
