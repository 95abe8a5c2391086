"""Prove that a model that takes long to compile keeps no one waiting, and that few large ones stay."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from shardclock_server.bpmn.model import read_model
from shardclock_server.engine.definitions import Definitions, Gone
from shardclock_server.service import processes
from shardclock_server.sql.session import Session
from tests.support.bpmn import model

USER = model('<startEvent id="s"/><userTask id="u"/>', connected="s>u")


async def test_a_model_is_compiled_beside_the_loop(dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
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


async def test_what_is_kept_is_bounded_by_its_nodes_and_what_is_wanted_now_stays(dsn: str) -> None:
    # Given four processes of three nodes, the process itself among them, and room for ten
    async with Session(dsn, application="test") as session:
        keys = []
        for name in "abcd":
            process = model('<startEvent id="s"/><userTask id="u"/>', connected="s>u", process_id=name)
            keys.append((await processes.deploy(session, process, resource="p.bpmn"))[0].definition_key)
        kept = Definitions(nodes_max=10)

        # When they are used one by one, then the last three stay
        for key in keys:
            await kept.load(session, [key])
        assert _known(kept, keys) == [False, True, True, True]

        # When all are wanted at once, then all are there, and the next one drives others out
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
        except Gone:
            known.append(False)
    return known
