"""A user's own JSON is printed unchanged, even if it has the names of our fields."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest

from shardclock_server.cli.process_output import print_instance
from shardclock_server.sql.processes.instances import FoundInstance, FoundStep, WholeInstance

NOW = datetime(2026, 3, 1, 8, tzinfo=UTC)
# In other outputs these names are our own fields: JSON in a text, and a number that is printed in hex.
MINE = {"result": "ok", "holder": "ann", "payload": "42", "detail": None}


def ended() -> WholeInstance:
    found = FoundInstance(7, "default", "p", 1, "COMPLETED", NOW, NOW, None, 0, "order-42")
    return WholeInstance(found, 3, None, None, MINE, {"timers": [], "incident_list": [{"token": 2, "node_id": "a"}]})


def test_a_user_s_variables_are_printed_unchanged(capsys: pytest.CaptureFixture[str]) -> None:
    steps = [FoundStep(1, NOW, [{"key": 7, "kind": "begin"}], [[1, "p", "entered"]])]
    print_instance(ended(), steps, as_json=True)
    said = json.loads(capsys.readouterr().out)
    assert said["result"] == MINE
    assert (said["state"], said["variables"]) == ("COMPLETED", None)
    assert said["steps"][0]["passes"] == [[1, "p", "entered"]]


def test_an_instance_s_history_has_authors_and_the_reasons_of_incidents(capsys: pytest.CaptureFixture[str]) -> None:
    came = [
        {"key": 8, "kind": "completed", "node": "u", "by": "ann", "variables": ["ok", "price"]},
        {"key": 9, "kind": "cancel", "by": "gateway", "key_prefix": "ab12cd34"},
        {"kind": "incident", "token": 2, "node": "g", "sentence": "no condition is true"},
    ]
    print_instance(ended(), [FoundStep(2, NOW, came, [])], as_json=False)
    said = " ".join(capsys.readouterr().out.split())
    assert (
        "completed ok, price at u by ann, cancel by gateway (the API key ab12cd34), incident at g: no condition is true"
        in said
    )
