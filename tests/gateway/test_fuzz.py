"""Test that no request makes a gateway fail: each is answered, or refused with a problem of the reference.

FUZZ=10000 sends 10,000 requests; FUZZ_SEED repeats a run.
"""

from __future__ import annotations

import json
import os
import random
import string
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, urlencode

import pytest

from shardclock.api.codes import PREFIX
from shardclock.api.refusals import code_of
from shardclock_server.gateway.requests.problems import MEDIA_TYPE
from tests.support.gateways import Api, Said

CASES = int(os.environ.get("FUZZ", "600"))
SEED = int(os.environ.get("FUZZ_SEED", "24"))
LEFT_OUT = {"/v1/log/stream"}  # an endless response
ODD_TEXTS = (
    "", " ", "\u0000", "a\nb", "'", '"', "\\", "%", "../..", "NaN", "null", "-1", "0", "1e999", "9" * 30, "\u202e",
    "\U0001f550", "\ud7ff", "PT1S", "R/PT1H", "0 8 * * MON", "2030-01-01T00:00:00Z", "2030-02-30T00:00Z",
    "Europe/Berlin", "x" * 5_000,
    "webhook:billing", "log", "skip", "replace", "sck_aaaaaaaa_" + "A" * 43,
)  # fmt: skip
ODD_NUMBERS = (0, -1, 1, 2**31, 2**63 - 1, 2**63, 10**400, 0.5, -0.0, 1e308)


@dataclass(frozen=True)
class Operation:
    """One operation of the reference, with its possible inputs."""

    method: str
    path: str
    parameters: list[dict[str, Any]] = field(default_factory=list)
    fields: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


def operations(reference: dict[str, Any]) -> Iterator[Operation]:
    """List all operations."""
    for path, methods in reference["paths"].items():
        for method, said in methods.items():
            if path in LEFT_OUT:
                continue
            content = said.get("requestBody", {}).get("content", {})
            fields = [name for each in content.values() for name in each["schema"].get("properties", {})]
            yield Operation(method.upper(), path, said.get("parameters", []), fields, said["x-problems"])


class Asker:
    """Generate random requests."""

    def __init__(self, seed: int) -> None:
        self._chance = random.Random(seed)

    def request(self, operation: Operation) -> tuple[str, bytes | None, dict[str, str]]:
        """Generate a path with its query, a body, and headers."""
        path, query, headers = operation.path, {}, dict[str, str]()
        for parameter in operation.parameters:
            if parameter["in"] == "path":
                drawn = str(self._chance.choice((1, 2, 3, self._text(), 2**63)))
                path = path.replace(f"{{{parameter['name']}}}", quote(drawn, safe="") or "n")
            elif parameter["in"] == "query" and self._chance.random() < 0.4:
                query[parameter["name"]] = "PT0.01S" if parameter["name"] == "wait" else self._text()
            elif parameter["in"] == "header" and self._chance.random() < 0.2:
                text = "".join(it for it in self._text()[:300] if " " <= it <= "~")
                headers[parameter["name"]] = text or "x"
        body = None if operation.method == "GET" else self._body(operation)
        if body is not None:
            headers["Content-Type"] = (
                self._chance.choice(("application/json",) * 8 + ("application/x-ndjson", "text/plain", ""))
                or "application/json"
            )
        return f"{path}?{urlencode(query)}" if query else path, body, headers

    def _body(self, operation: Operation) -> bytes | None:
        drawn = self._chance.random()
        if drawn < 0.1:
            return None
        if drawn < 0.2:
            return self._chance.randbytes(self._chance.randint(0, 200))
        if drawn < 0.3:
            return json.dumps(self._value(3)).encode()
        names = [*operation.fields, "colour"]
        some = self._chance.sample(names, min(len(names), self._chance.randint(0, 4)))
        return json.dumps({name: self._value(2) for name in some}).encode()

    def _value(self, depth: int) -> Any:
        match self._chance.randint(0, 6 if depth else 4):
            case 0:
                return self._chance.choice(ODD_NUMBERS)
            case 1:
                return self._chance.choice((True, False, None))
            case 5:
                return [self._value(depth - 1) for _ in range(self._chance.randint(0, 3))]
            case 6:
                return {self._text()[:50]: self._value(depth - 1) for _ in range(self._chance.randint(0, 3))}
        return self._text()

    def _text(self) -> str:
        if self._chance.random() < 0.7:
            return self._chance.choice(ODD_TEXTS)
        return "".join(self._chance.choices(string.printable, k=self._chance.randint(1, 40)))


def check(said: Said, operation: Operation, asked: object) -> None:
    """Assert that a response is in the reference: a success, or a problem of the operation, with its status."""
    if said.status < 400:
        return
    assert said.headers["Content-Type"] == MEDIA_TYPE, (asked, said)
    problem = said.json
    code = code_of(problem["type"].removeprefix(PREFIX))
    assert code is not None, (asked, said)
    assert code.status == said.status, (asked, said)
    assert said.status < 500, (asked, said)
    # A random path may be the path of another operation.
    assert code.general in {*operation.problems, "not_found", "wrong_method"}, (asked, said)
    assert problem["detail"].isprintable(), (asked, said)
    assert len(problem["detail"]) < 2_000, (asked, said)


@pytest.mark.slow
async def test_no_request_makes_a_gateway_fail(api: Api) -> None:
    known = list(operations((await api.get("/openapi.json")).json))
    asker, chance, statuses = Asker(SEED), random.Random(SEED), Counter[int]()
    for _ in range(CASES):
        operation = chance.choice(known)
        path, body, headers = asker.request(operation)
        said = await api.ask_raw(operation.method, path, body, headers)
        statuses[said.status] += 1
        check(said, operation, (operation.method, path, body, headers))

    assert statuses[200] + statuses[201] > CASES / 20, statuses  # enough of the requests were valid
    assert statuses[422] > CASES / 20, statuses
    assert (await api.get("/readyz")).status == 200
