"""Test that the reference has all examples, and that the examples fit the requests and responses of a gateway."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from pydantic import BaseModel

from shardclock.api.answers import Answer
from shardclock_server.gateway.answers.timers import ScheduledAnswer, WaitedAnswer
from shardclock_server.gateway.reference.examples import NoExample, example_of
from shardclock_server.gateway.routes.lines import LineAnswer
from tests.support.gateways import Api
from tools.openapi import PAGE

REFERENCE: dict[str, Any] = json.loads(PAGE.read_text(encoding="utf-8"))
SAID = [
    (method.upper(), path, said) for path, methods in REFERENCE["paths"].items() for method, said in methods.items()
]
OPERATIONS = [pytest.param(*each, id=each[2]["operationId"]) for each in SAID]
WITH_BODY = [pytest.param(*each, id=each[2]["operationId"]) for each in SAID if "requestBody" in each[2]]
UNDERSTOOD = {200, 201, 202, 204, 404, 409}  # 404 and 409: the object is unknown, or has another state


def models(of: type[BaseModel] = Answer) -> Iterator[type[BaseModel]]:
    """List all models of responses."""
    for model in of.__subclasses__():
        yield model
        yield from models(model)


MODELS = {model.__name__: model for model in models() if model.__module__.startswith("shardclock_server.gateway.")}


def examples_of(content: dict[str, Any]) -> dict[str, Any]:
    """Return the examples of a body by the names of their models."""
    if "examples" in content:
        return {name: each["value"] for name, each in content["examples"].items()}
    return {content.get("schema", {}).get("$ref", "").rpartition("/")[2]: content["example"]}


@pytest.mark.parametrize(("method", "path", "said"), OPERATIONS)
def test_an_operation_has_an_example_for_its_body_and_for_each_success(
    method: str, path: str, said: dict[str, Any]
) -> None:
    done = {status: answer for status, answer in said["responses"].items() if status.startswith("2")}
    assert done, f"{method} {path} has no success"
    for content in said.get("requestBody", {}).get("content", {}).values():
        assert content["example"]
    for status, answer in done.items():
        assert ("content" in answer) == (status != "204")
        for content in answer.get("content", {}).values():
            assert all(examples_of(content).values())


@pytest.mark.parametrize(("method", "path", "said"), OPERATIONS)
def test_each_example_of_a_response_fits_its_model(method: str, path: str, said: dict[str, Any]) -> None:
    for status, answer in said["responses"].items():
        if status == "default":  # skip problems: the fields of a problem have examples
            continue
        for media_type, content in answer.get("content", {}).items():
            for name, example in examples_of(content).items():
                if media_type == "application/json":
                    model = MODELS[name]
                    assert model.model_validate(example).model_dump(mode="json").keys() == example.keys()
                elif media_type == "application/x-ndjson":
                    assert [LineAnswer.model_validate_json(line).line for line in example.splitlines()] == [1, 2]


@pytest.mark.parametrize(("method", "path", "said"), WITH_BODY)
async def test_each_example_of_a_body_is_accepted(api: Api, method: str, path: str, said: dict[str, Any]) -> None:
    path = path.replace("{name}", "n").replace("{group}", "g").replace("{timer_key}", "7")
    path = path.replace("{role}", "shard")
    query = "?dry_run=true" if any(each["name"] == "dry_run" for each in said["parameters"]) else ""
    for media_type, content in said["requestBody"]["content"].items():
        example = content["example"]
        body = example if isinstance(example, str) else json.dumps(example)
        answer = await api.ask_raw(method, path + query, body.encode(), {"Content-Type": media_type})
        assert answer.status in UNDERSTOOD, answer
        assert "refused" not in [line.get("outcome") for line in answer.lines if "line" in line]


@pytest.mark.parametrize(("method", "path"), [("post", "/v1/timers"), ("put", "/v1/timers/by-name/{name}")])
def test_the_reference_describes_the_response_of_a_waiting_create(method: str, path: str) -> None:
    for status in ("200", "201"):
        content = REFERENCE["paths"][path][method]["responses"][status]["content"]["application/json"]
        assert content["schema"]["anyOf"] == [
            {"$ref": f"#/components/schemas/{model.__name__}"} for model in (ScheduledAnswer, WaitedAnswer)
        ]
    end = REFERENCE["components"]["schemas"]["WaitedAnswer"]["properties"]["end"]
    assert end["anyOf"] == [{"$ref": "#/components/schemas/RecordAnswer"}, {"type": "null"}]


async def test_responses_with_and_without_an_end_fit_the_reference(api: Api) -> None:
    body = {"delay": "PT1H", "name": "n"}
    at_once, waited = (
        await api.post("/v1/timers", body),
        await api.put("/v1/timers/by-name/n?wait=PT0S", {"delay": "P1D"}),
    )
    key = waited.json["timer_key"]
    await api.post(f"/v1/timers/{key}/cancel")
    end = await api.get(f"/v1/timers/{key}/end")

    assert at_once.json.keys() == ScheduledAnswer.model_fields.keys()
    assert waited.json.keys() == WaitedAnswer.model_fields.keys()
    assert waited.json["end"] is None
    assert end.json.keys() == REFERENCE["components"]["schemas"]["RecordAnswer"]["properties"].keys()


def test_each_reference_to_a_model_is_defined() -> None:
    asked = set(json.dumps(REFERENCE).split('"#/components/schemas/')[1:])
    assert {name.partition('"')[0] for name in asked} <= REFERENCE["components"]["schemas"].keys()


def test_a_field_without_an_example_is_named() -> None:
    schema = {"title": "It", "properties": {"some": {"type": "array", "items": {"type": "string"}}}}
    with pytest.raises(NoExample, match=r"It\.some has no example"):
        example_of(schema, {}, of="It")


def test_a_nullable_field_is_null_only_without_another_example() -> None:
    nullable = {"anyOf": [{"type": "string"}, {"type": "null"}]}
    model = {"anyOf": [{"$ref": "#/components/schemas/M"}, {"type": "null"}]}
    assert example_of(nullable, {}) is None
    assert example_of(model, {"M": {"properties": {"a": {"examples": [1]}}}}) == {"a": 1}
