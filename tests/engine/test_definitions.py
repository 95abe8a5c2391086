"""The cache of definitions: models compile in a thread, and large models fill the cache."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from shardclock_server.bpmn.model import read_model
from shardclock_server.engine.definitions import Definitions, Missing
from shardclock_server.service import processes
from shardclock_server.sql.session import Session
from tests.support.bpmn import model

USER = model('<startEvent id="s"/><userTask id="u"/>', connected="s>u")


async def test_a_model_is_compiled_in_a_thread_while_the_loop_runs(dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    loops = threading.get_ident()
    compiled_by: list[int] = []

    def read(text: bytes) -> Any:
        compiled_by.append(threading.get_ident())
        return read_model(text)

    monkeypatch.setattr("shardclock_server.engine.definitions.read_model", read)
    async with Session(dsn, application="test") as session:
        deployed = await processes.deploy(session, USER, resource="p.bpmn")
        await Definitions().load(session, [deployed[0].definition_key])

    assert compiled_by
    assert loops not in compiled_by


async def test_the_cache_has_a_limit_of_nodes_and_keeps_the_definitions_of_this_turn(dsn: str) -> None:
    # Given four processes, and a cache with a limit of ten nodes. Each process counts as three nodes
    async with Session(dsn, application="test") as session:
        keys = []
        for name in "abcd":
            process = model('<startEvent id="s"/><userTask id="u"/>', connected="s>u", process_id=name)
            keys.append((await processes.deploy(session, process, resource="p.bpmn"))[0].definition_key)
        kept = Definitions(nodes_max=10)

        # When the definitions are used one by one, then the last three stay in the cache
        for key in keys:
            await kept.load(session, [key])
        assert _known(kept, keys) == [False, True, True, True]

        # When all definitions are loaded together, then the cache has all, and the next definition removes the older
        # ones
        await kept.load(session, keys)
        assert _known(kept, keys) == [True] * 4
        await kept.load(session, keys[:1])
        assert _known(kept, keys) == [True, False, True, True]


def _known(kept: Definitions, keys: list[int]) -> list[bool]:
    known = []
    for key in keys:
        try:
            kept.get(key, "default")
            known.append(True)
        except Missing:
            known.append(False)
    return known
