"""Test that a forbidden endpoint is refused in one sentence when a tenant adds it."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from shardclock_server.webhooks.addresses import networks_of
from shardclock_server.webhooks.endpoint import EndpointRules, InvalidEndpoint, check_endpoint, check_headers, check_url
from tests.support.receivers import SECRET

RULES = EndpointRules()
WITHIN = EndpointRules(allow_http=True, networks=networks_of(allowed=["10.0.0.0/8", "127.0.0.0/8", "::1/128"]))


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("https://example.com", "https://example.com"),
        ("HTTPS://Example.COM/A?b=c%2Bd", "https://example.com/A?b=c%2Bd"),
        ("https://example.com:8443/hook/", "https://example.com:8443/hook/"),
        ("https://example.com./", "https://example.com./"),
        ("https://bücher.example/ä?ü=@", "https://xn--bcher-kva.example/%C3%A4?%C3%BC=@"),
        ("https://my_host.example.com/", "https://my_host.example.com/"),
        ("https://8.8.8.8/", "https://8.8.8.8/"),
        ("https://[2606:4700::1111]:8443/", "https://[2606:4700::1111]:8443/"),
    ],
)
def test_a_url_is_read_as_the_sender_reads_it(text: str, read: str) -> None:
    assert str(check_url(text, RULES)) == read


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("", "it must begin with https://"),
        ("example.com/hook", "it must begin with https://"),
        ("ftp://example.com/", "it must begin with https://"),
        ("file:" + "///etc/passwd", "it must begin with https://"),
        ("javascript:alert(1)", "it must begin with https://"),
        ("https:example.com", "it must begin with https://"),
        ("https:///hook", "it must begin with https://"),
        ("https://", "it must begin with https://"),
        ("https://?x", "it must begin with https://"),
        (
            "http://example.com/",
            r"http is not encrypted; use https, .* \(SHARDCLOCK_WEBHOOK_HTTP=true\)",
        ),
        ("https://me:secret@example.com/", "a URL can't contain a user or a password"),
        ("https://me@example.com/", "a URL can't contain a user or a password"),
        ("https://@example.com/", "a URL can't contain a user or a password"),
        ("https://example.com@127.0.0.1/", "a URL can't contain a user or a password"),
        ("https://example.com/#here", "a fragment .* is never sent"),
        ("https://example.com/#", "a fragment .* is never sent"),
        ("https://example.com/" + "a" * 2_029, "it has 2,049 characters, and may have 2,048"),
        ("https://example.com/a b", "it has a space, a backslash or an unprintable character"),
        (" https://example.com/", "it has a space, a backslash or an unprintable character"),
        ("https://example.com\t/", "it has a space, a backslash or an unprintable character"),
        ("https://example.com\r\nhost: x/", "it has a space, a backslash or an unprintable character"),
        ("https://example.com\\@127.0.0.1/", "it has a space, a backslash or an unprintable character"),
        ("https://example.com/\u202e", "it has a space, a backslash or an unprintable character"),
        ("https://example.com:99999/", "it is no URL"),
        ("https://example.com:port/", "it is no URL"),
        ("https://[::1/", "it is no URL"),
        ("https://example.com＠127.0.0.1/", "it is no URL"),
        ("https://127.0.0.1／.example.com/", "it is no URL"),
        ("https://[v1.example]/", "the text in . . must be an IPv6 address"),
        ("https://example.com:25/", "its port must be 80, 443 or at least 1024"),
        ("https://example.com:0/", "its port must be 80, 443 or at least 1024"),
        ("https://a..example/", "neither a name nor an address in its usual form"),
        ("https://example.com../", "neither a name nor an address in its usual form"),
        ("https://-a.example/", "neither a name nor an address in its usual form"),
        (f"https://{'a' * 64}.example/", "it is no URL|neither a name nor an address in its usual form"),
        (f"https://{'a.' * 127}example/", "neither a name nor an address in its usual form"),
        ("https://127.1/", "neither a name nor an address in its usual form"),
        ("https://2130706433/", "neither a name nor an address in its usual form"),
        ("https://0x7f000001/", "neither a name nor an address in its usual form"),
        ("https://0177.0.0.1/", "neither a name nor an address in its usual form"),
        ("https://127.0.0.1./", "neither a name nor an address in its usual form"),
        ("https://example.0x/", "neither a name nor an address in its usual form"),
        ("https://10.0.0.1/", r"its host must be public; .* \(SHARDCLOCK_WEBHOOK_ALLOW\)"),
        ("https://１２７.0.0.1/", "its host must be public"),
        ("https://[::1]/", "its host must be public"),
        ("https://[::ffff:10.0.0.1]/", "its host must be public"),
        ("https://[fe80::1%25eth0]/", "its host must be public"),
        ("https://169.254.169.254/latest", "its host must be public"),
        ("https://localhost/", "its host must be public"),
        ("https://LOCALHOST./", "its host must be public"),
        ("https://a.localhost/", "its host must be public"),
    ],
)
def test_a_forbidden_url_is_refused(text: str, rule: str) -> None:
    with pytest.raises(InvalidEndpoint, match=rule) as refused:
        check_url(text, RULES)
    assert str(refused.value).startswith("url ")
    assert str(refused.value).isprintable()
    assert len(str(refused.value)) < 250


@pytest.mark.parametrize(
    "text",
    [
        "https://me:Secret7@example.com/",
        "https://me:Sec/ret7@example.com/",
        "https://me:Sec#ret7@example.com/",
        "https://me:Sec ret7@example.com/",
        "http://me:Secret7@example.com:x/",
        "me:Secret7@example.com",
    ],
)
def test_a_password_in_a_url_is_not_shown(text: str) -> None:
    with pytest.raises(InvalidEndpoint, match=r"…@example\.com.* is refused: ") as refused:
        check_url(text, RULES)
    assert "ret7" not in str(refused.value)


@pytest.mark.parametrize(
    "text", ["http://10.0.0.1:8080/", "http://localhost:8080/", "http://[::1]:8080/", "http://receiver:8080/"]
)
def test_the_operator_can_allow_http_and_networks(text: str) -> None:
    assert str(check_url(text, WITHIN)) == text
    with pytest.raises(InvalidEndpoint):
        check_url(text, RULES)


@given(
    st.text(max_size=30).map("https://{}".format) | st.from_regex(r"https://[\[\]0-9a-fx:.%@/\\#?]+", fullmatch=True)
)
@example("https://[]@")
def test_any_text_is_read_or_refused(text: str) -> None:
    with suppress(InvalidEndpoint):
        url = check_url(text, RULES)
        assert url.scheme == "https"
        assert url.raw_host
        assert url.user is None
        assert check_url(str(url), RULES) == url


def test_headers_are_read() -> None:
    assert check_headers({"Authorization": "Bearer abc", "X-Key": "a b"}) == (
        ("authorization", "Bearer abc"),
        ("x-key", "a b"),
    )


@pytest.mark.parametrize(
    ("headers", "rule"),
    [
        ({"x-key": "a\r\nhost: b"}, "printable ASCII on one line"),
        ({"x-key": "a\n"}, "printable ASCII on one line"),
        ({"x-key": "a\0b"}, "printable ASCII on one line"),
        ({"x-key": "café"}, "printable ASCII on one line"),
        ({"x-key": " a"}, "without spaces at its ends"),
        ({"x-key": ""}, "printable ASCII on one line"),
        ({"x-key\r\nhost": "a"}, "a name has letters, digits and -"),
        ({"": "a"}, "a name has letters, digits and -"),
        ({"x key": "a"}, "a name has letters, digits and -"),
        ({"x:key": "a"}, "a name has letters, digits and -"),
        ({"x" * 101: "a"}, "a name has letters, digits and -, at most 100"),
        ({"Host": "a"}, "the sender or a proxy sets this header"),
        ({"CONTENT-LENGTH": "1"}, "the sender or a proxy sets this header"),
        ({"transfer-encoding": "chunked"}, "the sender or a proxy sets this header"),
        ({"connection": "close"}, "the sender or a proxy sets this header"),
        ({"Webhook-Id": "1"}, "the sender or a proxy sets this header"),
        ({"webhook-anything": "1"}, "the sender or a proxy sets this header"),
        ({"expect": "100-continue"}, "the sender or a proxy sets this header"),
        ({"proxy-authorization": "a"}, "the sender or a proxy sets this header"),
        ({"x-forwarded-for": "127.0.0.1"}, "the sender or a proxy sets this header"),
        ({"x-key": "a" * 4_001}, "may have 4,000 characters"),
        ({"x-key": "a" * 3_000, "y-key": "b" * 3_000}, "together they may have 6,000 characters"),
        ({f"x-{number}": "a" for number in range(21)}, "21 headers are refused: an endpoint may have 20"),
        ({"x-key": "a", "X-Key": "b"}, "two names differ only in upper and lower case"),
    ],
)
def test_a_header_that_could_change_the_request_is_refused(headers: dict[str, str], rule: str) -> None:
    with pytest.raises(InvalidEndpoint, match=rule) as refused:
        check_headers(headers)
    assert str(refused.value).isprintable()


@pytest.mark.parametrize("timeout_s", [0.0, -1.0, 0.5, 31.0, float("nan"), float("inf")])
def test_an_invalid_timeout_is_refused(timeout_s: float) -> None:
    with pytest.raises(InvalidEndpoint, match="must be from 1 to 30 seconds"):
        check_endpoint("https://example.com", {}, [SECRET], timeout_s=timeout_s, rules=RULES)


def test_a_printed_endpoint_shows_no_secret_and_no_header() -> None:
    endpoint = check_endpoint("https://example.com", {"authorization": "Bearer hush"}, [SECRET], rules=RULES)
    assert "hush" not in repr(endpoint)
    assert SECRET[6:] not in repr(endpoint)
