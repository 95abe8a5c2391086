"""The command line sets, changes and removes the durations in an endpoint's policy."""

from __future__ import annotations

import pytest

from tests.support.cli_asserts import DONE, assert_refused
from tests.support.program import Shell

URL = "https://example.com/hooks"
ADD = ("endpoints", "add", "calendar", "--url", URL)
CHANGE = ("endpoints", "change", "calendar")


def policy_of(shell: Shell) -> dict[str, object]:
    """Read the endpoint's policy."""
    (listed,) = shell("endpoints", "--json").json
    policy: dict[str, object] = listed["policy"]
    return policy


def test_lengths_of_a_policy_are_stored_in_seconds(shell: Shell) -> None:
    lengths = ("--expires-after", "PT10M", "--give-up-after", "10m", "--retry-min", "0.5s", "--retry-max", "1m")
    added = shell(*ADD, *lengths)

    assert added.code == DONE
    assert policy_of(shell) == {
        "expires_after_s": 600.0, "give_up_after_s": 600.0, "retry_min_s": 0.5, "retry_max_s": 60.0
    }  # fmt: skip


def test_lengths_are_changed_and_limits_are_removed(shell: Shell) -> None:
    shell(*ADD, "--expires-after", "10m", "--concurrency", 7)

    changed = shell(*CHANGE, "--expires-after", "PT1H", "--give-up-after", "7d", "--retry-max", "P1D")
    after = policy_of(shell)
    lifted = shell(*CHANGE, "--no-expires-after", "--no-give-up-after")

    assert changed.err == (
        "endpoint webhook:calendar has expires_after_s 3600, has give_up_after_s 604800, has retry_max_s 86400\n"
    )
    assert after == {
        "expires_after_s": 3_600.0, "concurrency": 7, "give_up_after_s": 604_800.0, "retry_max_s": 86_400.0
    }  # fmt: skip
    assert lifted.err == "endpoint webhook:calendar has no expires_after_s, has no give_up_after_s\n"
    assert policy_of(shell) == {
        "expires_after_s": None, "concurrency": 7, "give_up_after_s": None, "retry_max_s": 86_400.0
    }  # fmt: skip


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--expires-after", "soon"], "--expires-after 'soon' is not a length of time"),
        (["--expires-after", "2000000h"], "--expires-after '2000000h' is refused: it must be from 0.1s to 365d"),
        (["--retry-max", "31d"], "--retry-max '31d' is refused: it must be from 0.001s to 30d"),
        (["--retry-min", "2m", "--retry-max", "1m"], "retry_min (120 s) is longer than retry_max (60 s)"),
    ],
)
def test_an_invalid_command_is_refused_in_one_line_and_changes_nothing(
    shell: Shell, words: list[str], sentence: str
) -> None:
    assert_refused(shell(*ADD, *words), sentence)
    assert shell("endpoints", "--json").json == []
    shell(*ADD)

    assert_refused(shell(*CHANGE, *words), sentence)
    assert policy_of(shell) == {}


@pytest.mark.parametrize("name", ["expires-after", "give-up-after"])
def test_a_limit_is_either_given_or_removed(shell: Shell, name: str) -> None:
    shell(*ADD)

    refused = shell(*CHANGE, f"--{name}", "1h", f"--no-{name}")

    assert_refused(refused, f"--{name} and --no-{name} exclude each other; remove one of the two")
    assert policy_of(shell) == {}


def test_given_lengths_are_recorded_in_the_audit(shell: Shell) -> None:
    shell(*ADD, "--expires-after", "10m", "--retry-max", "1m")

    (act,) = shell("audit", "--json").json
    assert (act["parameters"]["expires_after"], act["parameters"]["retry_max"]) == ("10m", "1m")
