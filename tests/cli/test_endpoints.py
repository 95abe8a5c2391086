"""Commands add, change, test, rotate and end endpoints, and a refused command stores nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from standardwebhooks import Webhook

from shardclock.api.refusals.tenants import ENDPOINT_EXISTS, UNKNOWN_ENDPOINT
from shardclock.api.refusals.timers import TARGET_DISABLED
from tests.support.answering import answering
from tests.support.cli_asserts import BAD_INPUT, DONE, NOT_DONE, assert_code, assert_refused
from tests.support.program import Shell

URL = "https://example.com/hooks"
SECRET = "whsec_" + 44 * "A"
HERE: dict[str, Any] = {"SHARDCLOCK_WEBHOOK_HTTP": "true", "SHARDCLOCK_WEBHOOK_ALLOW": "127.0.0.0/8"}


def test_a_new_endpoint_is_a_target_and_its_secret_is_printed_once(shell: Shell) -> None:
    added = shell("endpoints", "add", "billing", "--url", URL)

    assert added.code == DONE
    assert added.out.startswith("whsec_")
    assert "endpoint webhook:billing added" in added.err
    assert shell("schedule", "--in", "PT1H", "--target", "webhook:billing").code == DONE
    (listed,) = shell("endpoints", "--urls", "--json").json["endpoints"]
    assert (listed["name"], listed["url"], listed["disabled_at"]) == ("billing", URL, None)
    assert "whsec_" not in shell("endpoints", "--json").out + shell("endpoints").out


def test_the_last_attempts_of_an_endpoint_are_listed(shell: Shell) -> None:
    shell("endpoints", "add", "billing", "--url", URL)
    text = """
        insert into shardclock.endpoint_attempts (
            tenant_id, name, timer_key, attempt, ended_at, status, duration_ms, failure, body
        )
        values ('default', 'billing', 7, 2, now() + interval '1 s', 503, 12, 'answered 503', repeat('x', 100))
    """

    assert shell("endpoints", "attempts", "billing").err == "endpoint webhook:billing has no attempts yet\n"
    shell.sql(text)

    (found,) = shell("endpoints", "attempts", "billing", "--json").json["attempts"]
    assert (found["timer_key"], found["attempt"], found["status"], found["duration_ms"]) == (7, 2, 503, 12)
    assert (found["failure"], found["body"]) == ("answered 503", "x" * 100)
    assert shell("endpoints", "attempts", "billing").out.rstrip().endswith(" " + "x" * 60)
    assert_refused(shell("endpoints", "attempts", "nobody"), "nobody", code=NOT_DONE)


def test_a_wrong_value_is_refused_in_a_sentence_and_stores_nothing(shell: Shell) -> None:
    for wrong, sentence in (
        (["--url", "http://example.com/"], "http is not encrypted; use https"),
        (["--url", URL, "--header", "x-no-colon"], "has no colon"),
        (["--url", URL, "--timeout", "60s"], "--timeout '60s' is refused: it must be from 1s to 30s"),
        (["--url", URL, "--expires-after", "soon"], "--expires-after 'soon' is not a length of time"),
        (["--url", URL, "--secret", "whsec_" + 44 * "A", "--asymmetric"], "leave --asymmetric out"),
    ):
        assert_refused(shell("endpoints", "add", "billing", *wrong), sentence)
    assert shell("endpoints", "--json").json["endpoints"] == []
    shell("endpoints", "add", "billing", "--url", URL)
    assert_code(shell("endpoints", "add", "billing", "--url", URL, "--json"), ENDPOINT_EXISTS)


def test_secrets_are_read_from_a_file_or_from_standard_input(shell: Shell, tmp_path: Path) -> None:
    headers, secret = tmp_path / "headers", tmp_path / "secret"
    headers.write_text("authorization: Bearer 7\n\nx-team: 8\r\n")
    secret.write_text(SECRET + "\n")
    with answering(204) as receiver:
        add = ("endpoints", "add", "--url", receiver.url)
        from_file = shell(
            *add, "billing", "--secret", f"@{secret}", "--header", f"@{headers}", "--header", "x-a: b", **HERE
        )
        from_stdin = shell(*add, "mail", "--secret", "-", stdin=SECRET.encode(), **HERE)
        assert (from_file.out.strip(), from_stdin.out.strip()) == (SECRET, SECRET)
        for name in ("billing", "mail"):
            assert shell("endpoints", "test", name, **HERE).code == DONE

    for sent, body in receiver.got:
        Webhook(SECRET).verify(body, sent)
    sent, _ = receiver.got[0]
    assert (sent["authorization"], sent["x-team"], sent["x-a"]) == ("Bearer 7", "8", "b")


def test_a_file_without_a_valid_secret_is_refused(shell: Shell, tmp_path: Path) -> None:
    file = tmp_path / "file"
    for content, sentence in (
        (None, "can't be read: No such file or directory"),
        (b"", "it must have 1 to 8,192 bytes"),
        (9_000 * b"a", "it must have 1 to 8,192 bytes"),
        (b"\xff\xfe", "it must be text"),
    ):
        if content is not None:
            file.write_bytes(content)
        for option in ("--secret", "--header"):
            assert_refused(shell("endpoints", "add", "billing", "--url", URL, option, f"@{file}"), option, sentence)


def test_a_header_without_a_colon_is_not_shown(shell: Shell, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("Bearer-of-7")
    for header in ("Bearer-of-7", f"@{tmp_path / 'file'}"):
        refused = shell("endpoints", "add", "billing", "--url", URL, "--header", header)
        assert refused.code == BAD_INPUT
        assert "Bearer-of-7" not in refused.err


def test_a_test_is_signed_and_reports_the_answer(shell: Shell) -> None:
    with answering(204) as receiver:
        secret = shell("endpoints", "add", "billing", "--url", receiver.url, **HERE).out.strip()
        tested = shell("endpoints", "test", "billing", "--json", **HERE)

    assert tested.code == DONE
    assert tested.json | {"delivered": True, "answer": "it answered 204"} == tested.json
    headers, body = receiver.got[0]
    verified = Webhook(secret).verify(body, headers)
    assert (verified["type"], verified["data"]["target"]) == ("timer.fired", "webhook:billing")


def test_a_failed_test_reports_the_reason(shell: Shell) -> None:
    with answering(500) as receiver:
        shell("endpoints", "add", "billing", "--url", receiver.url, **HERE)
        tested = shell("endpoints", "test", "billing", **HERE)
        assert (tested.code, "answered 500" in tested.err) == (NOT_DONE, True)

    refused = shell("endpoints", "test", "billing")
    assert refused.code == BAD_INPUT
    assert "http is not encrypted" in refused.err


def test_an_endpoint_is_disabled_enabled_and_removed(shell: Shell) -> None:
    shell("endpoints", "add", "billing", "--url", URL)

    assert shell("endpoints").out.splitlines()[1].split()[3] == "enabled", "nobody has tried whether it works"
    assert shell("endpoints", "disable", "billing", "--reason", "moves house").code == DONE
    assert "disabled: moves house" in shell("endpoints").out
    refused = shell("schedule", "--in", "PT1H", "--target", "webhook:billing")
    assert "was disabled at" in refused.err
    assert shell("endpoints", "disable", "billing").code == DONE
    assert shell("endpoints", "enable", "billing").code == DONE
    assert shell("endpoints", "remove", "billing").code == DONE
    assert_code(shell("endpoints", "remove", "billing", "--json"), UNKNOWN_ENDPOINT)


def test_an_endpoint_that_is_the_target_of_pending_timers_is_ended_only_with_yes(shell: Shell) -> None:
    shell("endpoints", "add", "billing", "--url", URL)
    for _ in range(2):
        shell("schedule", "--in", "PT1H", "--target", "webhook:billing")
    for verb, done in (("disable", "disabled"), ("remove", "removed")):
        asked, asked_json = shell("endpoints", verb, "billing"), shell("endpoints", verb, "billing", "--json")
        many = "2 pending timers have the target webhook:billing, and each would become a dead letter when it fires"
        message = f"{many}; nothing was changed; add --yes to {verb} the endpoint"
        assert (asked.code, asked.err) == (NOT_DONE, f"{message}\n")
        assert asked_json.json == {"message": message, "done": False, "pending_timers": 2}
        meant = shell("endpoints", verb, "billing", "--yes")
        assert (meant.code, meant.err) == (DONE, f"endpoint webhook:billing is {done}\n")


def test_a_change_affects_only_the_given_fields(shell: Shell) -> None:
    with answering(204) as receiver:
        add = ("endpoints", "add", "billing", "--url", receiver.url, "--header", "x-a: 1", "--header", "x-b: 2")
        shell(*add, "--concurrency", 5, "--rate", 2, **HERE)

        changed = shell(
            "endpoints", "change", "billing", "--header", "x-c: 3", "--rate", 7.5, "--timeout", "3s",
            "--max-attempts", 4, **HERE,
        )  # fmt: skip
        shell("endpoints", "test", "billing", **HERE)

    assert (changed.code, changed.err) == (
        DONE,
        "endpoint webhook:billing sends 1 header of its own, has rate_per_s 7.5, has max_attempts 4, has timeout_s 3\n",
    )
    (listed,) = shell("endpoints", "--urls", "--json").json["endpoints"]
    assert (listed["url"], listed["policy"]) == (
        receiver.url, {"concurrency": 5, "rate_per_s": 7.5, "timeout_s": 3.0, "max_attempts": 4},
    )  # fmt: skip
    ((sent, _),) = receiver.got
    assert (sent.get("x-a"), sent.get("x-b"), sent["x-c"]) == (None, None, "3")


def test_headers_limits_and_lengths_are_changed_and_removed(shell: Shell) -> None:
    added = ("--rate", 2, "--header", "x-a: 1", "--expires-after", "PT10M", "--retry-min", "0.5s")
    shell("endpoints", "add", "billing", "--url", URL, *added)
    policy = shell("endpoints", "--json").json["endpoints"][0]["policy"]
    changed = shell("endpoints", "change", "billing", "--no-rate", "--no-headers", "--no-expires-after")
    again = shell("endpoints", "change", "billing", "--no-rate", "--no-headers")
    longer = shell("endpoints", "change", "billing", "--give-up-after", "7d", "--retry-max", "P1D")
    assert policy == {"rate_per_s": 2.0, "expires_after_s": 600.0, "retry_min_s": 0.5}
    for words in ("sends 0 headers of its own", "has no rate_per_s", "has no expires_after_s"):
        assert words in changed.err
    assert (again.code, again.err.endswith("has no rate_per_s already\n")) == (DONE, True)
    assert longer.err == "endpoint webhook:billing has give_up_after_s 604800, has retry_max_s 86400\n"
    assert shell("endpoints", "--json").json["endpoints"][0]["policy"] == {
        "rate_per_s": None, "expires_after_s": None, "retry_min_s": 0.5, "give_up_after_s": 604_800.0,
        "retry_max_s": 86_400.0,
    }  # fmt: skip


def test_a_refused_change_changes_nothing(shell: Shell) -> None:
    shell("endpoints", "add", "billing", "--url", URL, "--concurrency", 5)
    (before,) = shell("endpoints", "--json").json["endpoints"]
    for words, sentence in (
        ([], "no change is given: give --url, --header, --concurrency, --rate, --timeout, --max-attempts, "),
        (["--header", "webhook-id: 1"], "the sender or a proxy sets this header"),
        (["--rate", "1", "--no-rate"], "--rate and --no-rate exclude each other"),
        (["--header", "a: 1", "--no-headers"], "--header and --no-headers exclude each other"),
        (["--expires-after", "1h", "--no-expires-after"], "--expires-after and --no-expires-after exclude each other"),
    ):
        assert_refused(shell("endpoints", "change", "billing", *words), sentence)
    assert shell("endpoints", "--json").json["endpoints"] == [before]


def test_a_disabled_endpoint_can_be_tested_and_changed_and_remains_disabled(shell: Shell) -> None:
    shell("endpoints", "add", "billing", "--url", URL)
    shell("endpoints", "disable", "billing", "--reason", "moves house")

    refused = shell("endpoints", "change", "billing", "--url", "https://169.254.169.254/")
    changed = shell("endpoints", "change", "billing", "--url", "https://example.com/new")

    assert_refused(refused, "its host must be public")
    assert changed.err == "endpoint webhook:billing leads to https://example.com/new; it is disabled: moves house\n"
    assert_code(shell("schedule", "--in", "PT1H", "--target", "webhook:billing", "--json"), TARGET_DISABLED)
    shell("endpoints", "enable", "billing")
    assert shell("endpoints", "--urls", "--json").json["endpoints"][0]["url"] == "https://example.com/new"
