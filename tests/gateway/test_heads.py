"""Test that a request is unambiguous: each parameter, header and field must come once, in UTF-8."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from itertools import cycle
from typing import Any

from shardclock_server.gateway.requests.headers import SUPPORTED
from tests.support.factories import pending_rows
from tests.support.gateways import REFERENCE, Api
from tests.support.raw_http import Pairs, ask_raw, exchange

SAID: dict[str, Any] = json.loads(REFERENCE.read_text(encoding="utf-8"))["paths"]
OPERATIONS = [(method.upper(), path, said) for path, methods in SAID.items() for method, said in methods.items()]
PAGES = ["/docs", "/openapi.json"]
NUL, NOT_UTF8 = "contains a NUL character, which Postgres can't store; leave it out", "is not valid UTF-8"
# A NUL; an invalid first byte; an overlong NUL; half of a surrogate pair; a truncated character.
BAD_TEXTS = {"%00": NUL, "a%00b": NUL, "%ff": NOT_UTF8, "%C0%80": NOT_UTF8, "%ED%A0%80": NOT_UTF8, "a%E2%82": NOT_UTF8}
MOMENTS = {"due_from", "due_before", "at", "since", "from"}
LOST_PLUS = (
    "2031-01-01T00:00:00+01:00",
    "2031-01-01T00:00:00+1:00",
    "20310101T000000+0100",
    "2031-01-01T00:00+0100",
    "2031-01-01t00:00:00.5+01",
    "2031-01-01%2000:00+01",
)
HEADERS = sorted(
    {*SUPPORTED, *(it["name"] for *_, said in OPERATIONS for it in said.get("parameters", ()) if it["in"] == "header")},
    key=lambda name: (name.lower(), name),
)
BOM = b"\xef\xbb\xbf"
# A text by itself, in a list, and in an object.
FORMS: tuple[Callable[[str], object], ...] = (str, lambda text: [text], lambda text: {"a": text})


def filled(path: str, **given: str) -> str:
    """Replace the parameters in a path by the given values, or by 7."""
    return re.sub(r"{(\w+)}", lambda name: given.get(name[1], "shard" if name[1] == "role" else "7"), path)


def parameters(place: str) -> Iterator[tuple[str, str, str, dict[str, Any]]]:
    """List the parameters of all operations in one place: query, path or header."""
    for method, path, said in OPERATIONS:
        for it in said.get("parameters", ()):
            if it["in"] == place:
                yield method, path, it["name"], it["schema"]


def kind_of(schema: dict[str, Any]) -> str | None:
    """Return the type of a schema, without null."""
    return next((it["type"] for it in schema.get("anyOf", [schema]) if it["type"] != "null"), None)


def bodies() -> Iterator[tuple[str, str, str, dict[str, Any]]]:
    """List the operations with a body, each with its media type and its description."""
    for method, path, said in OPERATIONS:
        for media_type, content in said.get("requestBody", {}).get("content", {}).items():
            yield method, filled(path), media_type, content


async def test_a_repeated_query_parameter_is_refused_unless_it_is_a_list(api: Api) -> None:
    for method, path, name, schema in parameters("query"):
        for other in ("1", "abc"):
            said = await api.ask(method, f"{filled(path)}?{name}=1&{name}={other}")
            if kind_of(schema) == "array":
                assert said.status == 200, (method, path, name, said)
            else:
                assert said.status == 422, (method, path, name, said)
                said.assert_problem("refused", 422, f"{name} is given twice; give it once")


async def test_a_query_parameter_that_can_not_be_stored_is_refused_by_its_name(api: Api) -> None:
    for (method, path, name, _), (text, words) in zip(parameters("query"), cycle(BAD_TEXTS.items()), strict=False):
        (await api.ask(method, f"{filled(path)}?{name}={text}")).assert_problem("refused", 422, f"{name} ", words)


async def test_a_path_parameter_that_can_not_be_stored_is_refused_by_its_name(api: Api) -> None:
    for (method, path, name, schema), (text, words) in zip(parameters("path"), cycle(BAD_TEXTS.items()), strict=False):
        said = await api.ask(method, filled(path, **{name: text}))
        if kind_of(schema) == "string":
            said.assert_problem("refused", 422, f"{name} ", words)
        else:
            assert said.status == 404, (method, path, said)


async def test_a_path_with_a_final_line_feed_is_another_path(api: Api) -> None:
    for method, path, said in OPERATIONS:
        if said.get("security"):
            asked = await api.ask(method, f"{filled(path)}%0A", None if method == "GET" else {})
            assert asked.status in (404, 422), (path, asked)
            assert path.endswith("}") or asked.json["type"].endswith(":not_found"), (path, asked)


async def test_a_moment_with_a_space_for_its_plus_sign_is_refused_with_the_reason(api: Api) -> None:
    asked = [each for each in parameters("query") if each[2] in MOMENTS]
    assert len(asked) >= len(MOMENTS)
    for method, path, name, _ in asked:
        for moment in LOST_PLUS:
            said = await api.ask(method, f"{filled(path)}?{name}={moment}")
            said.assert_problem("refused", 422, f"{name} ", "%2B")
        as_meant = await api.ask(method, f"{filled(path)}?{name}={LOST_PLUS[0].replace('+', '%2B')}")
        assert b"%2B" not in as_meant.body
    for value in ("rule=R/2031-01-01T00:00:00+01:00/PT1H", "rule=PT1H&zone=Etc/GMT+1"):
        (await api.get(f"/v1/schedules/preview?{value}")).assert_problem("refused", 422, "%2B")


async def test_a_plus_sign_in_other_parameters_is_a_space(api: Api) -> None:
    for query in ("name=two+words", "name_prefix=a+1", "name=at+10:00+12", "name=2031-01-01T00:00:00%2001:00"):
        assert (await api.get(f"/v1/timers?{query}")).status == 200


async def test_a_supported_header_must_come_once_and_in_utf_8(api: Api) -> None:
    for name in HEADERS:
        value = {"host": b"localhost", "origin": b"http://localhost", "content-length": b"0"}.get(name.lower(), b"7")
        given: Pairs = ((name.encode(), value),)
        no_host: Pairs = ()
        host = no_host if name == "Host" else ((b"Host", b"localhost"),)
        for path in ("/healthz", "/v1/timers", "/docs", "/v1/log/stream"):
            twice = await ask_raw(api.url, "GET", path, headers=given * 2, host=host)
            assert twice.status == 400, (path, twice)
            if name != "Content-Length":  # the protocol refuses this header earlier
                assert twice.detail.lower() == f"{name} is given twice; give it once".lower()
        if name != "Content-Length":
            bad = await ask_raw(api.url, "GET", "/v1/timers", headers=((name.encode(), b"a\xff"),), host=host)
            assert bad.status == 400, bad
            assert bad.detail.lower().startswith(f"{name} ".lower())
            assert NOT_UTF8 in bad.detail
    said = await ask_raw(api.url, "GET", "/healthz", host=())
    assert (said.status, said.detail) == (400, "Host is missing; HTTP/1.1 needs it once")


async def test_a_tenant_header_is_read_as_utf_8(dsn: str, api: Api) -> None:
    name = "Čapek & 猫"
    made = await ask_raw(
        api.url,
        "POST",
        "/v1/timers",
        headers=((b"Shardclock-Tenant", name.encode()), (b"Content-Type", b"application/json")),
        body=b'{"delay":"PT1H","name":"n"}',
    )
    assert made.status == 201, made
    assert [timer["tenant_id"] for timer in await pending_rows(dsn)] == [name]


async def test_head_has_the_answer_of_get_without_a_body(api: Api) -> None:
    for path in [*(filled(path) for method, path, _ in OPERATIONS if method == "GET"), *PAGES]:
        query = "?rule=PT1H" if path.endswith("preview") else ""
        head = await ask_raw(api.url, "HEAD", path + query)
        assert head.body == b"", path
        if path == "/v1/log/stream":
            assert (head.status, head.headers["content-type"]) == (200, "text/event-stream; charset=utf-8")
            assert api.gateway.wait_limits.streams.in_use == 0
            continue
        get = await ask_raw(api.url, "GET", path + query)
        moving = {"date"} | ({"content-length"} if path in ("/readyz", "/v1/cluster") else set())
        assert head.status == get.status, path
        assert {k: v for k, v in head.headers.items() if k not in moving} == {
            k: v for k, v in get.headers.items() if k not in moving
        }


async def test_the_allow_header_has_all_methods_of_a_path(api: Api) -> None:
    for path, methods in SAID.items():
        allowed = {method.upper() for method in methods} | ({"HEAD"} if "get" in methods else set())
        for other in {"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"} - allowed:
            said = await ask_raw(api.url, other, filled(path))
            assert said.status == 405, (other, path, said)
            assert set(said.headers["allow"].split(", ")) == allowed, (other, path)


async def test_a_body_with_a_content_coding_is_refused(api: Api) -> None:
    codings = cycle((b"gzip", b"br", b"identity, gzip", b"GZIP", b"aes128gcm"))
    for (method, path, media_type, content), coding in zip(bodies(), codings, strict=False):
        body = content["example"] if isinstance(content["example"], str) else json.dumps(content["example"])
        given: Pairs = ((b"Content-Type", media_type.encode()), (b"Content-Encoding", coding))
        said = await ask_raw(api.url, method, path, headers=given, body=body.encode())
        assert said.status == 415, (method, path, said)
        named = coding.decode().lower()
        assert said.detail == f"Content-Encoding {named} is not supported; send the body without encoding"
        assert said.headers["accept-encoding"] == "identity"
    assert (await api.post("/v1/timers", {"delay": "PT1H"}, Content_Encoding="Identity")).status == 201


async def test_a_byte_order_mark_at_the_start_of_a_body_is_ignored(api: Api) -> None:
    for method, path, media_type, content in bodies():
        body = content["example"] if isinstance(content["example"], str) else json.dumps(content["example"])
        said = await api.ask(method, path, BOM + body.encode(), Content_Type=media_type)
        assert said.status != 400, (method, path, said)
        assert b"not JSON" not in said.body
        assert b"not XML" not in said.body


async def test_a_json_object_with_a_repeated_name_is_refused(api: Api) -> None:
    twice = b'{"colour":1,"delay":"PT1H","colour":2}'
    for method, path, media_type, _ in bodies():
        if media_type == "application/json":
            (await api.ask(method, path, twice)).assert_problem("unreadable", 400, "'colour'", "twice")
        elif media_type == "application/x-ndjson":
            (line,) = (await api.ask(method, path, twice, Content_Type=media_type)).lines
            assert line["outcome"] == "refused"
            assert "'colour'" in line["why"]


async def test_a_field_that_can_not_be_stored_is_refused_by_its_name(api: Api) -> None:
    half = "\ud800", "contains half of a surrogate pair"
    bad = cycle((value(text), words) for text, words in (("a\0b", NUL), half) for value in FORMS)
    for method, path, media_type, content in bodies():
        if media_type != "application/json":
            continue
        for name, (value, words) in zip(content["schema"]["properties"], bad, strict=False):
            (await api.ask(method, path, {name: value})).assert_problem("refused", 422, name, words)
        (await api.ask(method, path, {half[0]: 1})).assert_problem("refused", 422, half[1])
    for name in ("name", "target", "payload", "timer_type", "idempotency_key", "schedule"):
        (said,) = (await api.post_lines({"delay": "PT1H", name: "a\0b"})).lines
        assert (said["outcome"], said["why"].startswith(f"{name} ")) == ("refused", True)


async def test_bytes_that_are_not_an_http_request_are_refused_with_the_reason(api: Api) -> None:
    twice = b"Content-Length: 1\r\nContent-Length: 1"
    for request_, words in (
        (b"GET / HTTP/1.1\r\nHost: a\r\nShardclock-Tenant: a\x00b\r\n\r\n", f"Shardclock-Tenant {NUL}"),
        (b"GET / HTTP/1.1\r\nHost: a\r\nIdempotency-Key: \x01\r\n\r\n", "Idempotency-Key contains a control character"),
        (b"GET /v1/timers?name=\xc3\xa4 HTTP/1.1\r\nHost: a\r\n\r\n", "letters beyond ASCII; write them in UTF-8, as"),
        (b"GET /v1/timers/by-name/\xff HTTP/1.1\r\nHost: a\r\n\r\n", "letters beyond ASCII"),
        (b"GET / HTTP/1.1\r\nno header\r\n\r\n", "the request is not HTTP/1.1: invalid header token"),
        (b"\x16\x03\x01\x02\x00", "the request is not HTTP/1.1: "),
        (b"POST /v1/timers HTTP/1.1\r\nHost: a\r\n" + twice + b"\r\n\r\n1", "duplicate Content-Length"),
    ):
        said = await exchange(api.url, request_)
        assert (said.status, said.headers["content-type"]) == (400, "application/problem+json")
        assert words in said.detail


async def test_a_refusal_that_quotes_a_value_is_one_printable_line(api: Api) -> None:
    for text in ("%E2%80%AE", "a%0Ab", "%1B[31m", "%7F"):
        said = await api.get(f"/v1/timers?after={text}")
        said.assert_problem("refused", 422, "page")
        assert said.json["detail"].isprintable()
