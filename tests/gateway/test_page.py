"""Test that the page of the reference is complete, escapes text, and fetches nothing."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import shlex
from copy import deepcopy
from typing import Any

import pytest

from shardclock.api.codes import GENERAL
from shardclock_server.gateway.reference.page import HEADERS, page_of
from tests.support.gateways import serving
from tests.support.html_page import HtmlPage
from tools.openapi import PAGE

REFERENCE: dict[str, Any] = json.loads(PAGE.read_text(encoding="utf-8"))
TEXT = page_of(REFERENCE)
HTML = HtmlPage(TEXT)
SAID = [
    (method.upper(), path, said) for path, methods in REFERENCE["paths"].items() for method, said in methods.items()
]
OPERATIONS = [pytest.param(*each, id=each[2]["operationId"]) for each in SAID]
BYTES_MAX = 340 * 1024
NOWHERE = "postgresql://nobody@127.0.0.1:1/none"


@pytest.mark.parametrize(("method", "path", "said"), OPERATIONS)
def test_the_page_shows_each_operation_with_its_whole_description(method: str, path: str, said: dict[str, Any]) -> None:
    shown = HTML.texts[said["operationId"]]
    assert f"{method} {path}" in shown
    for part in said["description"].replace("`", "").split("\n\n"):
        assert part in shown
    for scope in (scope for needs in said.get("security", ()) for scope in needs["key"]):
        assert f"Needs the scope {scope}" in shown
    assert ("of a key for all tenants" in shown) == said.get("x-all-tenants", False)
    for parameter in said.get("parameters", ()):
        assert parameter["name"] in shown
    for status, answer in said["responses"].items():
        assert status == "default" or f"Answer {status}" in shown
        for content in answer.get("content", {}).values():
            for example in _examples(content):
                assert example in shown
    for name in said["x-problems"]:
        assert name in shown
    assert "curl -sf " in shown


def _examples(content: dict[str, Any]) -> list[str]:
    values = [each["value"] for each in content.get("examples", {}).values()]
    values += [content["example"]] if "example" in content else []
    return [value if isinstance(value, str) else json.dumps(value, indent=1, ensure_ascii=False) for value in values]


@pytest.mark.parametrize(("method", "path", "said"), OPERATIONS)
def test_the_curl_command_of_each_operation_is_valid_shell(method: str, path: str, said: dict[str, Any]) -> None:
    shown = HTML.texts[said["operationId"]]
    line = next(part for part in re.split(r"\n(?=curl |Answer |Problems)", shown) if part.startswith("curl "))
    words = shlex.split(line)
    url = next(word for word in words if word.startswith("http"))

    assert re.fullmatch(re.sub(r"\\{\w+\\}", "[^/?]+", re.escape(path)) + r"(\?.*)?", url.partition("9841")[2])
    for content in said.get("requestBody", {}).get("content", {}).values():
        example = content["example"]
        assert words[-1] == example or json.loads(words[-1]) == example
    sent = words[words.index("-X") + 1] if "-X" in words else ("POST" if "requestBody" in said else "GET")
    assert sent == method


def test_all_links_lead_somewhere_on_the_page_or_to_the_document_itself() -> None:
    assert len(set(HTML.ids)) == len(HTML.ids)
    assert {link for link in HTML.links if link != "/openapi.json"} <= {f"#{name}" for name in HTML.ids}
    assert "/openapi.json" in HTML.links
    contents = {f"#{said['operationId']}" for _, _, said in SAID}
    assert contents <= set(HTML.links)
    assert {f"problem-{code.name}" for code in GENERAL} <= set(HTML.ids)


def test_the_page_fetches_nothing_and_runs_no_script() -> None:
    assert HTML.fetched == []
    assert not HTML.tags & {"script", "iframe", "img", "object", "embed", "form", "base", "link"}
    assert not {name for name in HTML.attributes if name.startswith("on") or name == "style"}
    assert "url(" not in HTML.styles[0]
    assert "@import" not in HTML.styles[0]


def test_the_policy_of_the_page_allows_only_the_pages_own_style() -> None:
    digest = base64.b64encode(hashlib.sha256(HTML.styles[0].encode()).digest()).decode()
    assert HTML.styles == [HTML.styles[0]]
    policy = HEADERS["Content-Security-Policy"].split("; ")
    assert policy[:2] == ["default-src 'none'", f"style-src 'sha256-{digest}'"]
    assert not {"unsafe-inline", "unsafe-eval", "http:", "https:", "*"} & set(re.split(r"[ ;']+", "; ".join(policy)))


def test_the_page_is_small_and_usable_on_a_phone_and_by_keyboard() -> None:
    assert len(TEXT.encode()) < BYTES_MAX
    assert '<meta name="viewport" content="width=device-width, initial-scale=1">' in TEXT
    assert HTML.links[0] == "#operations"  # this link skips the table of contents, for users without a mouse
    assert TEXT.count("<pre ") == TEXT.count('<pre tabindex="0">')  # the keyboard reaches each part that scrolls
    assert TEXT.count('<div class="wide"') == TEXT.count('<div class="wide" tabindex="0">')


def test_text_of_the_reference_is_escaped_on_the_page() -> None:
    odd = "<script>alert('1')</script> & \"<b>"
    reference = deepcopy(REFERENCE)
    said = reference["paths"]["/v1/timers"]["post"]
    said["description"] = reference["info"]["description"] = f"{odd} `{odd}`"
    said["parameters"][0]["description"] = said["parameters"][0]["name"] = odd
    content = said["requestBody"]["content"]["application/json"]
    content["example"] = {odd: odd}
    content["schema"]["properties"] = {odd: {"type": odd, "default": odd, "description": odd}}
    said["responses"]["201"]["description"] = odd
    reference["components"]["schemas"]["TimerAnswer"]["description"] = odd
    reference["paths"][f"/v1/{odd}"] = {"get": {**reference["paths"]["/healthz"]["get"], "operationId": "odd"}}

    page = HtmlPage(page_of(reference))

    assert page.tags == HTML.tags
    assert page.texts["create_timer"].count(odd) >= 8
    assert f"GET /v1/{odd}" in page.texts["odd"]


async def test_each_gateway_serves_the_page_without_a_key_and_without_postgres() -> None:
    async with serving(NOWHERE, role="", needs_keys=True) as lonely:
        said = await lonely.get("/docs")
        again = await lonely.get("/docs")

    assert (said.status, said.headers["Content-Type"]) == (200, "text/html; charset=utf-8")
    assert {name: said.headers[name] for name in HEADERS} == HEADERS
    assert said.body.decode() == again.body.decode() == TEXT
