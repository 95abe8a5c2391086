"""A nonsensical command is refused in one line, before any statement."""

from __future__ import annotations

import pytest

from tests.support.cli_asserts import BIG, DOWN, assert_refused
from tests.support.program import Shell

TOO_LARGE = str(2**63)

NOON = "2040-01-01T12:00:00Z"
CASES: list[tuple[list[str], list[str]]] = [
    (["show", str(BIG + 1)], [str(BIG + 1)]),
    (["show", "first"], ["first"]),
    (["show"], ["either its key or --name"]),
    (["show", "1", "--name", "x"], ["either its key or --name"]),
    (["cancel", "1", "--reason", "\udcff"], ["'\\udcff'", "UTF-8"]),
    (["scale", "0"], ["0", "1 to 840"]),
    (["ramp", "-1"], ["'-1'", "0 to 2147483647", "off"]),
    (["ramp", "slow"], ["'slow'", "off"]),
    (["ramp", "--colour"], ["'--colour'"]),
    (["ramp", "1", "2"], ["2"]),
    (["tail", "-n", "0"], ["0"]),
    (["tail", "--intent", "fired"], ["--intent 'fired'", "TRIGGERED, CANCELED,"]),
    (["up", "--shards", "841"], ["--shards '841' is refused: choose a whole number from 1 to 840 (see"]),
    (["up", "--shards", "x"], ["--shards 'x' is refused: choose a whole number from 1 to 840 (see"]),
    (["audit", "-n", "1.5"], ["--limit '1.5' is refused: choose a whole number from 1 to 10000 (see"]),
    (["show", "0"], ["TIMER_KEY '0' is refused: choose a whole number from 1 to "]),
    (["keys", "list", "-n", "0"], ["--limit '0' is refused: choose a whole number from 1 to 9223372036854775807 (see"]),
    (["operations", "show", TOO_LARGE], [f"OPERATION '{TOO_LARGE}' is refused: choose a whole number from 1 to 92"]),
    (["tasks", "complete", TOO_LARGE], [f"TASK_KEY '{TOO_LARGE}' is refused: choose a whole number from 1 to 92"]),
    (["processes", "show", TOO_LARGE], [f"INSTANCE_KEY '{TOO_LARGE}' is refused: choose a whole number from 1 to 92"]),
    (["processes", "delete", TOO_LARGE], [f"'{TOO_LARGE}' is refused: choose a whole number from 1 to 92"]),
    (["dead-letters", "redrive", TOO_LARGE], [f"'{TOO_LARGE}' is refused: choose a whole number from 1 to 92"]),
    (["endpoints", "-n", TOO_LARGE], [f"--limit '{TOO_LARGE}' is refused: choose a whole number from 1 to 92"]),
    (["endpoints", "add", "b", "https://b.example", "--rate", "x"], ["--rate 'x' is refused: choose a number from "]),
    (["scale", "2", "--wait", "nan"], ["--wait 'nan' is refused: choose a number from 0 to "]),
    (["switch", "green", "--wait", "-1"], ["--wait", "-1"]),
    (["leave", "--within", "soon"], ["--within", "soon"]),
    (["up", "--app", ":x:"], ["--app is ':x:'", "names of modules with commas between them"]),
    (["dance"], ["dance"]),
    (["cancel", "1", "--all"], ["either one timer", "or many"]),
    (["pause", "1", "--process-instance", "7"], ["either one timer", "or many"]),
    (["cancel", "--name-prefix", "x"], ["add --all"]),
    (["cancel", "--tenant", "acme", "--yes"], ["--all for many"]),
    (["cancel", "--all", "--due-before", "soon"], ["--due-before 'soon'"]),
    (["cancel", "--all", "--process-instance", "x"], ["x"]),
    (["run-now", "--all"], ["--all"]),
    (["reschedule", "--all"], ["exactly one of"]),
    (["reschedule", "--all", "--in", "PT1H"], ["use --shift for many timers"]),
    (["reschedule", "--all", "--cron", "@daily"], ["use --shift for many timers"]),
    (["reschedule", "--all", "--shift", "an hour"], ["--shift 'an hour'"]),
    (["reschedule", "--all", "--shift", "PT1H", "--operation", ""], ["--operation ''", "1 to 200"]),
    (["jobs", "run", "refresh", "--within", "3"], ["--within goes with --wait"]),
    (["jobs", "run", "refresh", "--wait", "--within", "-1"], ["--within"]),
    (["jobs", "run", "refresh", "--config", "{city"], ["--config '{city' is not JSON"]),
    (["jobs", "run", "refresh", "--config", "@/no/such/file"], ["--config", "can't be read"]),
    (["jobs", "configure", "refresh", "NaN"], ["config 'NaN'", "no JSON number"]),
    (["jobs", "history", "refresh", "-n", "0"], ["0"]),
    (["jobs", "add", "eu"], ["--of-job"]),
    (["jobs", "add", "eu", "--of-job", "a", "--every", "1h", "--cron", "0 3 * * *"], ["--every and --cron are given"]),
    (["jobs", "add", "eu", "--of-job", "a", "--every", "P1M"], ["--every 'P1M' has years or months", "give days"]),
    (["jobs", "add", "eu", "--of-job", "a", "--every", "soon"], ["--every 'soon' is not a length of time"]),
    (["jobs", "add", "eu", "--of-job", "a", "--config", "{"], ["--config '{' is not JSON"]),
    (["jobs", "apply", "/no/such/file"], ["can't read /no/such/file"]),
    (["pause", "1", "--until", "noon"], ["--until 'noon' is not an ISO 8601 date-time", "such as 2h or PT2H"]),
    (["pause", "1", "--until", "2040-01-01T12:00"], ["--until '2040-01-01T12:00' has no offset"]),
    (["pause", "1", "--until", "2040-01-01T12:00[Mars]"], ["--until", "Mars"]),
    (["pause", "1", "--until", "5x"], ["--until '5x'"]),
    (["pause", "1", "--until", "1M"], ["--until '1M' may mean minutes or months"]),
    (["pause", "1", "--until", NOON, "--missed", "never"], ["--missed 'never'"]),
]


def test_a_nonsensical_command_is_refused_before_any_statement(capsys: pytest.CaptureFixture[str]) -> None:
    for command, words in CASES:
        assert_refused(Shell(DOWN, capsys)(*command), *words)
