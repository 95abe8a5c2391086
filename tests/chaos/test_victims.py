"""Prove that a fault starts when it hits its victim; the choice of the victim does not block the program."""

from __future__ import annotations

import random
import time
from collections import Counter
from types import SimpleNamespace
from typing import cast

import pytest

from chaos.faults.fault import Injection
from chaos.faults.network import cut_shard, half_open_shard
from chaos.faults.processes import kill_shard
from chaos.proxy import ProxiedConnection
from chaos.sandbox import Keeper, Sandbox
from shardclock_server.keepers.registration import Registration
from shardclock_server.keepers.settings import KeeperSettings
from shardclock_server.sql.cluster.holders import SHARD, WORKER, Incarnation

NO_PID = 2**22  # above the greatest process id of Linux
SHARD_AB = Keeper(0xAB, NO_PID, 0)


def link_of(application: str) -> ProxiedConnection:
    return cast("ProxiedConnection", SimpleNamespace(application=application))


class SlowlyFound:
    """A sandbox that records the time of the search for shards, and the time at which the fault hits a shard."""

    def __init__(self) -> None:
        self.found_at = self.hit_at = 0.0
        self.proxy = self

    async def shards(self) -> list[Keeper]:
        self.found_at = time.time()
        return [SHARD_AB]

    def send(self, *_: object) -> None:
        self.hit_at = time.time()

    async def cut(self, *_: object, **__: object) -> None:
        self.hit_at = time.time()

    half_open = cut


@pytest.mark.parametrize("inject", [kill_shard, cut_shard, half_open_shard])
async def test_a_fault_begins_after_the_choice_of_its_victim(inject: Injection) -> None:
    sandbox = SlowlyFound()

    hit = await inject(cast("Sandbox", sandbox), random.Random(1), 0.0)

    assert hit.victims == (0xAB,)
    assert hit.began_at is not None
    assert sandbox.found_at <= hit.began_at <= sandbox.hit_at


def test_a_keeper_owns_each_session_with_its_role_and_holder_and_no_process_is_searched() -> None:
    incarnation = Incarnation(0xAB, SHARD, "blue", "shard-1", node_id="node", host="here", pid=NO_PID)
    registration = Registration(incarnation, KeeperSettings(), "postgresql://x/x", retry_s=1.0, failures=Counter())
    sessions = [registration.heartbeat._session, registration.session("claims"), registration.session("notifications")]
    names = [session._server_settings["application_name"] for session in sessions]

    assert all(SHARD_AB.owns(link_of(name)) for name in names), names
    assert not any(Keeper(0xABC, NO_PID, 0).owns(link_of(name)) for name in names)
    assert not any(Keeper(0xAB, NO_PID, 0, WORKER).owns(link_of(name)) for name in names)
    assert not SHARD_AB.owns(link_of("chaos client"))
