"""Commands subscribe endpoints to events for operators, list and test them, and a refused command stores nothing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from shardclock.api.refusals.tenants import UNKNOWN_ENDPOINT, UNKNOWN_SUBSCRIPTION
from tests.support.answering import answering
from tests.support.cli_asserts import DONE, NOT_DONE, assert_code, assert_refused
from tests.support.program import Shell

URL = "https://hooks.example.com/services/T0/B0"


def test_a_new_url_is_an_endpoint_that_gets_the_events(shell: Shell) -> None:
    added = shell("notify", "add", URL, "--on", "job.failed, delivery.dead")

    assert added.code == DONE
    assert added.out.startswith("whsec_")
    assert "endpoint webhook:hooks.example.com gets delivery.dead, job.failed" in added.err
    (listed,) = shell("notify", "--json").json["endpoints"]
    assert (listed["endpoint"], listed["url"]) == ("hooks.example.com", "https://hooks.example.com/…")
    assert (listed["kinds"], listed["failures_min"]) == (["delivery.dead", "job.failed"], 3)
    (endpoint,) = shell("endpoints", "--json").json["endpoints"]
    assert endpoint["name"] == "hooks.example.com"


def test_a_list_shows_the_secret_part_of_a_url_only_with_the_option_urls(shell: Shell) -> None:
    shell("notify", "add", "https://hooks.example.com:8443/T0?token=B0", "--on", "delivery.dead")
    shell("notify", "add", "https://hooks.example.org", "--on", "delivery.dead")

    for command in ("notify", "endpoints"):
        shown = [it["url"] for it in shell(command, "--json").json["endpoints"]]
        whole = [it["url"] for it in shell(command, "--json", "--urls").json["endpoints"]]

        assert shown == ["https://hooks.example.com:8443/…", "https://hooks.example.org"]
        assert whole == ["https://hooks.example.com:8443/T0?token=B0", "https://hooks.example.org"]
        assert ("T0" in shell(command).out, "T0" in shell(command, "--urls").out) == (False, True)


@pytest.mark.parametrize("word", ["-", "@{}"])
def test_a_url_is_read_from_standard_input_or_a_file(shell: Shell, tmp_path: Path, word: str) -> None:
    file = tmp_path / "url"
    file.write_text(f"{URL}\n")

    added = shell("notify", "add", word.format(file), "--on", "delivery.dead", stdin=f"{URL}\n".encode())

    assert added.code == DONE
    (endpoint,) = shell("endpoints", "--urls", "--json").json["endpoints"]
    assert (endpoint["name"], endpoint["url"]) == ("hooks.example.com", URL)


def test_an_existing_endpoint_gets_the_new_kinds_of_events_and_no_events_after_the_removal(shell: Shell) -> None:
    shell("endpoints", "add", "ops", "--url", URL, "--tenant", "acme")

    shell("notify", "add", "ops", "--on", "delivery.dead", "--tenant", "acme")
    changed = shell("notify", "add", "ops", "--on", "endpoint.disabled", "--text-only", "--tenant", "acme", "--json")
    again = shell("notify", "add", "ops", "--on", "endpoint.disabled", "--text-only", "--tenant", "acme")

    assert changed.json == {
        "message": "endpoint webhook:ops gets endpoint.disabled",
        "done": True,
        "secret": None,
    }
    assert "gets endpoint.disabled already" in again.err
    (listed,) = shell("notify", "--tenant", "acme", "--json").json["endpoints"]
    assert (listed["kinds"], listed["text_only"]) == (["endpoint.disabled"], True)
    assert shell("notify", "remove", "ops", "--tenant", "acme").code == DONE
    assert shell("notify", "--json").json["endpoints"] == []
    assert [it["name"] for it in shell("endpoints", "--json").json["endpoints"]] == ["ops"]
    assert_code(shell("notify", "remove", "ops", "--tenant", "acme", "--json"), UNKNOWN_SUBSCRIPTION)


def test_a_wrong_subscription_is_refused_and_adds_no_endpoint(shell: Shell) -> None:
    for wrong, sentence in (
        (["--on", "job.lost"], "'job.lost' is refused: choose from delivery.dead, "),
        (["--on", "cluster.lag", "--tenant", "acme"], "cluster.lag is refused for tenant 'acme'"),
        (["--on", "job.failed", "--failures", "0"], "0"),
        (["--on", "job.failed", "--name", "NO"], "endpoint name 'NO' is refused"),
    ):
        assert_refused(shell("notify", "add", URL, *wrong), sentence)
    assert_code(shell("notify", "add", "nowhere", "--on", "delivery.dead", "--json"), UNKNOWN_ENDPOINT)
    assert shell("endpoints", "--json").json["endpoints"] == []


def test_a_test_event_is_sent_immediately_and_the_answer_is_printed(shell: Shell) -> None:
    with answering(204) as receiver:
        env: dict[str, Any] = {"SHARDCLOCK_WEBHOOK_HTTP": "true", "SHARDCLOCK_WEBHOOK_ALLOW": "127.0.0.0/8"}
        shell("notify", "add", receiver.url, "--on", "delivery.dead", "--name", "chat", **env)
        tried = shell("notify", "test", "chat", **env)

    assert (tried.code, tried.err) == (
        DONE,
        "webhook:chat: it answered 204; this machine sent the test, and workers send the events\n",
    )
    (body,) = [json.loads(it) for _, it in receiver.got]
    assert body["type"] == "notify.test"
    assert body["text"] == "a test: endpoint webhook:chat gets delivery.dead"
    assert_refused(shell("notify", "test", "nowhere"), "gets no events", code=NOT_DONE)
