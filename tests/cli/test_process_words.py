"""What is printed of an instance: a user's own JSON as it is, whatever its names."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest

from shardclock_server.cli.process_words import print_instance
from shardclock_server.sql.processes.instances import FoundInstance, FoundStep, WholeInstance

NOW = datetime(2026, 3, 1, 8, tzinfo=UTC)
# Names that are fields of ours elsewhere, where they are JSON in a text, or a number that is written in hex.
MINE = {"result": "ok", "holder": "ann", "payload": "42", "detail": None}


def ended() -> WholeInstance:
    found = FoundInstance(7, "default", "p", 1, "COMPLETED", NOW, NOW, None, 0, "order-42")
    return WholeInstance(found, 3, None, None, MINE, {"timers": [], "incident_list": [{"token": 2, "node_id": "a"}]})


def test_a_user_s_variables_are_printed_as_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    steps = [FoundStep(1, NOW, [{"key": 7, "kind": "begin"}], [[1, "p", "entered"]])]
    print_instance(ended(), steps, as_json=True)
    said = json.loads(capsys.readouterr().out)
    assert said["result"] == MINE
    assert (said["state"], said["variables"]) == ("COMPLETED", None)
    assert said["steps"][0]["passes"] == [[1, "p", "entered"]]


def test_a_person_sees_variables_incidents_and_steps(capsys: pytest.CaptureFixture[str]) -> None:
    stale = [{"key": 8, "kind": "fired", "node": "t", "stale": True}]
    print_instance(ended(), [FoundStep(2, NOW, stale, [[1, "p", "left"]])], as_json=False)
    said = capsys.readouterr().out
    assert '"holder": "ann"' in said
    assert "incidents" in said
    assert "fired at t (stale)" in said
    assert "p left" in said


def test_a_person_sees_who_did_it_and_why_a_token_stopped(capsys: pytest.CaptureFixture[str]) -> None:
    came = [
        {"key": 8, "kind": "completed", "node": "u", "by": "ann", "variables": ["ok", "price"]},
        {"key": 9, "kind": "cancel", "by": "gateway", "key_prefix": "ab12cd34"},
        {"kind": "incident", "token": 2, "node": "g", "sentence": "no condition is true"},
    ]
    print_instance(ended(), [FoundStep(2, NOW, came, [])], as_json=False)
    said = " ".join(capsys.readouterr().out.split())
    assert (
        "completed ok, price at u by ann, cancel by gateway (API key ab12cd34), incident at g: no condition is true"
        in said
    )
