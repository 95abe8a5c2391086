"""The parts of the reference's page: operations, models and tables, with escaped text."""

import json
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping
from html import escape
from typing import Any
from urllib.parse import quote

from shardclock_server.gateway.reference.examples import example_of
from shardclock_server.gateway.reference.refusals import ALWAYS, BY_PARAMETER, WITH_BODY, WITH_KEY
from shardclock_server.gateway.requests.idempotency import HEADER

BASE = "http://127.0.0.1:9841"
# Example values of the parameters in paths.
NAMES = {"name": "order-4711", "group": "billing", "tenant": "acme", "timer_key": 20514}
# Problems that many operations share. Links to them would be a tenth of the page, so only the heading links to the list
# of all problems.
OF_MANY = {kind.name for kind in {*WITH_KEY, *ALWAYS, *WITH_BODY, *BY_PARAMETER[HEADER]}}
OF_TAGS = {"endpoints": {"name": "billing"}, "notify": {"name": "chat"}, "jobs": {"name": "refresh"}}
CODE = re.compile(r"`([^`]+)`")
Spec = Mapping[str, Any]


def text_of(text: str) -> str:
    """Escape a text between tags; quotes are not escaped, because escaped quotes would make the page a tenth larger."""
    return escape(text, quote=False)


def prose(text: str) -> str:
    """Escape a text, and mark text between backticks as code."""
    return CODE.sub(r"<code>\1</code>", text_of(text))


def example(value: object) -> str:
    """Render an example: a text unchanged, any other value as JSON."""
    return text_of(value if isinstance(value, str) else json.dumps(value, indent=1, ensure_ascii=False))


def contents_of(reference: Spec) -> str:
    """Render the table of contents: the operations by tag, each a link."""
    parts = []
    for tag, operations in _by_tag(reference):
        links = "\n".join(
            f'<li><a href="#{operation["operationId"]}"><code><span class="method">{method.upper()}</span> '
            f"{text_of(path)}</code></a></li>"
            for path, method, operation in operations
        )
        parts.append(f'<h2><a href="#{_id_of(tag)}">{text_of(tag)}</a></h2>\n<ul>\n{links}\n</ul>')
    return "\n".join(
        [
            *parts,
            '<p><a href="#headers">Headers</a>, <a href="#models">answers</a>, <a href="#problems">problems</a></p>',
        ]
    )


def operations_of(reference: Spec) -> str:
    """Render all operations, by tag."""
    schemas = reference["components"]["schemas"]
    sections = []
    for tag, operations in _by_tag(reference):
        articles = "\n".join(_operation(path, method, operation, schemas) for path, method, operation in operations)
        sections.append(f'<section>\n<h2 id="{_id_of(tag)}">{text_of(tag)}</h2>\n{articles}\n</section>')
    return "\n".join(sections)


def models_of(schemas: Mapping[str, Spec]) -> str:
    """Render the fields of all models."""
    return "\n".join(
        f'<h3 id="model-{name}">{name}</h3>\n<p>{prose(schema.get("description", ""))}</p>\n{_fields(schema)}'
        for name, schema in sorted(schemas.items())
    )


def _by_tag(reference: Spec) -> list[tuple[str, list[tuple[str, str, Spec]]]]:
    """Group operations by tag, in the order of first use; the most used tag, `timers`, comes first."""
    found = [
        (path, method, operation)
        for path, methods in reference["paths"].items()
        for method, operation in methods.items()
    ]
    tags = list(dict.fromkeys(operation["tags"][0] for _, _, operation in found))
    tags.sort(key=lambda tag: tag != "timers")
    return [(tag, [it for it in found if it[2]["tags"][0] == tag]) for tag in tags]


def _operation(path: str, method: str, operation: Spec, schemas: Mapping[str, Spec]) -> str:
    described = "\n".join(f"<p>{prose(part)}</p>" for part in operation["description"].split("\n\n"))
    parts = [
        f'<article id="{operation["operationId"]}">',
        f'<h3><a href="#{operation["operationId"]}"><code>{method.upper()} {text_of(path)}</code></a></h3>',
        described,
        f'<p class="faint">{_needs(operation)}</p>',
        *_parameters(operation),
        *_body(operation),
        f'<h4>With curl</h4>\n<pre tabindex="0">{text_of(curl_of(path, method, operation, schemas))}</pre>',
        *_answers(operation),
        _problems(operation),
        "</article>",
    ]
    return "\n".join(parts)


def _needs(operation: Spec) -> str:
    if "security" not in operation:
        return "Needs no key."
    scope = operation["security"][0]["key"][0]
    of_all_tenants = ", of a key for all tenants" if operation.get("x-all-tenants") else ""
    return f"Needs the scope <code>{text_of(scope)}</code>{of_all_tenants}."


def headers_of(reference: Spec) -> str:
    """Render the headers of all operations.

    Most operations have the same headers, so each header is described only once.
    """
    found = {
        each["name"].lower(): each
        for methods in reference["paths"].values()
        for operation in methods.values()
        for each in operation.get("parameters", ())
        if each["in"] == "header"
    }
    return _table(
        "header",
        (
            f'<tr id="header-{escape(name)}"><td><code>{text_of(each["name"])}</code></td>'
            f"<td>{_type_of(each['schema'])}</td><td>{prose(each['description'])}</td></tr>"
            for name, each in found.items()
        ),
    )


def _parameters(operation: Spec) -> Iterator[str]:
    parameters = operation.get("parameters", ())
    if rows := [
        _row(
            each["name"],
            f"{each['in']}, {_type_of(each['schema'])}",
            each.get("required", False),
            prose(each.get("description", "")),
        )
        for each in parameters
        if each["in"] != "header"
    ]:
        yield f"<h4>Parameters</h4>\n{_table('parameter', rows)}"
    if headers := [
        f'<a href="#header-{escape(each["name"].lower())}">{text_of(each["name"])}</a>'
        for each in parameters
        if each["in"] == "header"
    ]:
        yield f"<p>Headers: {', '.join(headers)}</p>"


def _body(operation: Spec) -> Iterator[str]:
    for media_type, content in operation.get("requestBody", {}).get("content", {}).items():
        needed = "" if operation["requestBody"].get("required") else ", may be left out"
        yield f"<h4>Body</h4>\n<p><code>{text_of(media_type)}</code>{needed}</p>"
        yield f'<pre tabindex="0">{example(content["example"])}</pre>'
        yield f"<details><summary>Its fields</summary>\n{_fields(content['schema'])}\n</details>"


def _answers(operation: Spec) -> Iterator[str]:
    for status, answer in operation["responses"].items():
        if status == "default":
            continue
        yield f"<h4>Answer {text_of(status)}</h4>"
        if answer["description"] != "Successful Response":  # FastAPI's default
            yield f"<p>{prose(answer['description'])}</p>"
        for media_type, content in answer.get("content", {}).items():
            examples = content.get("examples") or {"": {"value": content["example"]}}
            models = _type_of(content.get("schema", {}))
            yield f"<p><code>{text_of(media_type)}</code> {models if 'href' in models else ''}</p>"
            yield from (f'<pre tabindex="0">{example(each["value"])}</pre>' for each in examples.values())


def _problems(operation: Spec) -> str:
    names = ", ".join(
        name if name in OF_MANY else f'<a href="#problem-{name}">{name}</a>' for name in operation["x-problems"]
    )
    return f'<h4><a href="#problems">Problems</a></h4>\n<p>{names}</p>'


def curl_of(path: str, method: str, operation: Spec, schemas: Mapping[str, Spec]) -> str:
    """Write a curl command for an operation from its examples."""
    names = NAMES | OF_TAGS.get(operation["tags"][0], {})
    query = []
    for parameter in operation.get("parameters", ()):
        if parameter["in"] == "path":
            name = parameter["name"]
            path = path.replace(f"{{{name}}}", quote(str(names.get(name, name)), safe=""))
        elif parameter["in"] == "query" and parameter.get("required"):
            query.append(f"{parameter['name']}={quote(str(_example_of(parameter, schemas)), safe='')}")
    words = ["curl", "-sf", BASE + path + (f"?{'&'.join(query)}" if query else "")]
    body = operation.get("requestBody", {}).get("content", {})
    if method.upper() != ("POST" if body else "GET"):
        words += ["-X", method.upper()]
    if "security" in operation:
        words += ["-H", "Authorization: Bearer sck_…"]
    for media_type, content in body.items():
        is_text = isinstance(content["example"], str)
        words += ["-H", f"Content-Type: {media_type}", "--data-binary"] if is_text else ["--json"]
        words.append(content["example"] if is_text else json.dumps(content["example"], ensure_ascii=False))
    return shlex.join(words)


def _example_of(parameter: Spec, schemas: Mapping[str, Spec]) -> object:
    return parameter["example"] if "example" in parameter else example_of(parameter["schema"], schemas)


def _fields(schema: Spec) -> str:
    if "properties" not in schema:
        return f"<p>{_type_of(schema)}</p>"
    needed = schema.get("required", ())
    rows = (
        _row(name, _type_of(part), name in needed, prose(part.get("description", "")))
        for name, part in schema["properties"].items()
    )
    return _table("field", rows)


def _table(noun: str, rows: Iterable[str]) -> str:
    return (
        f'<div class="wide" tabindex="0"><table><thead><tr>'
        f'<th scope="col">{noun}</th><th scope="col">type</th><th scope="col">meaning</th></tr></thead><tbody>\n'
        + "\n".join(rows)
        + "\n</tbody></table></div>"
    )


def _row(name: str, kind: str, needed: object, about: str) -> str:
    must = " <strong>needed</strong>" if needed else ""
    return f"<tr><td><code>{text_of(name)}</code></td><td>{kind}{must}</td><td>{about}</td></tr>"


def _type_of(schema: Spec) -> str:
    """Return the name of a value's type and the default value; the name of a model is a link."""
    default = f", else {text_of(json.dumps(schema['default']))}" if schema.get("default") is not None else ""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f'<a href="#model-{name}">{name}</a>{default}'
    if "enum" in schema:
        return " or ".join(f"<code>{text_of(str(value))}</code>" for value in schema["enum"]) + default
    if "anyOf" in schema:
        return " or ".join(dict.fromkeys(map(_type_of, schema["anyOf"]))) + default
    if schema.get("type") == "array":
        return f"list of {_type_of(schema['items'])}{default}"
    return text_of(schema.get("type", "any JSON value")) + default


def _id_of(tag: str) -> str:
    return f"tag-{tag.replace(' ', '-')}"
