"""The parts of the reference's page: operations, models, and the text of each, escaped."""

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
# What stands for a name in a path; keys have examples of their own.
NAMES = {"name": "order-4711", "group": "billing", "tenant": "acme", "timer_key": 20514}
# Without links, which would be a tenth of the page: many operations have them, and the heading leads to all of them.
OF_MANY = {kind.name for kind in {*WITH_KEY, *ALWAYS, *WITH_BODY, *BY_PARAMETER[HEADER]}}
OF_TAGS = {"endpoints": {"name": "billing"}, "jobs": {"name": "refresh"}}
CODE = re.compile(r"`([^`]+)`")
Said = Mapping[str, Any]


def text_of(text: str) -> str:
    """Escape a text that stands between tags; quotes stay, which makes the page a tenth smaller."""
    return escape(text, quote=False)


def prose(text: str) -> str:
    """Escape a text; what stands between backticks is code."""
    return CODE.sub(r"<code>\1</code>", text_of(text))


def example(value: object) -> str:
    """Write an example as it is sent: a text as it is, anything else as JSON."""
    return text_of(value if isinstance(value, str) else json.dumps(value, indent=1, ensure_ascii=False))


def contents_of(reference: Said) -> str:
    """List all operations by their tags, each a link."""
    parts = []
    for tag, operations in _by_tag(reference):
        links = "\n".join(
            f'<li><a href="#{said["operationId"]}"><code><span class="method">{method.upper()}</span> '
            f"{text_of(path)}</code></a></li>"
            for path, method, said in operations
        )
        parts.append(f'<h2><a href="#{_id_of(tag)}">{text_of(tag)}</a></h2>\n<ul>\n{links}\n</ul>')
    return "\n".join(
        [
            *parts,
            '<p><a href="#headers">Headers</a>, <a href="#models">answers</a>, <a href="#problems">problems</a></p>',
        ]
    )


def operations_of(reference: Said) -> str:
    """Write all operations, by their tags."""
    schemas = reference["components"]["schemas"]
    sections = []
    for tag, operations in _by_tag(reference):
        articles = "\n".join(_operation(path, method, said, schemas) for path, method, said in operations)
        sections.append(f'<section>\n<h2 id="{_id_of(tag)}">{text_of(tag)}</h2>\n{articles}\n</section>')
    return "\n".join(sections)


def models_of(schemas: Mapping[str, Said]) -> str:
    """Write the fields of all models."""
    return "\n".join(
        f'<h3 id="model-{name}">{name}</h3>\n<p>{prose(schema.get("description", ""))}</p>\n{_fields(schema)}'
        for name, schema in sorted(schemas.items())
    )


def _by_tag(reference: Said) -> list[tuple[str, list[tuple[str, str, Said]]]]:
    """List operations by tag, in the order in which tags first come; timers, which most want, first."""
    found = [(path, method, said) for path, methods in reference["paths"].items() for method, said in methods.items()]
    tags = list(dict.fromkeys(said["tags"][0] for _, _, said in found))
    tags.sort(key=lambda tag: tag != "timers")
    return [(tag, [it for it in found if it[2]["tags"][0] == tag]) for tag in tags]


def _operation(path: str, method: str, said: Said, schemas: Mapping[str, Said]) -> str:
    described = "\n".join(f"<p>{prose(part)}</p>" for part in said["description"].split("\n\n"))
    parts = [
        f'<article id="{said["operationId"]}">',
        f'<h3><a href="#{said["operationId"]}"><code>{method.upper()} {text_of(path)}</code></a></h3>',
        described,
        f'<p class="faint">{_needs(said)}</p>',
        *_parameters(said),
        *_body(said),
        f'<h4>With curl</h4>\n<pre tabindex="0">{text_of(curl_of(path, method, said, schemas))}</pre>',
        *_answers(said),
        _problems(said),
        "</article>",
    ]
    return "\n".join(parts)


def _needs(said: Said) -> str:
    if "security" not in said:
        return "Needs no key."
    scope = said["security"][0]["key"][0]
    whose = ", of a key for all tenants" if said.get("x-all-tenants") else ""
    return f"Needs the scope <code>{text_of(scope)}</code>{whose}."


def headers_of(reference: Said) -> str:
    """Write the headers that operations heed: most of them the same, so each has its words once."""
    found = {
        each["name"].lower(): each
        for methods in reference["paths"].values()
        for said in methods.values()
        for each in said.get("parameters", ())
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


def _parameters(said: Said) -> Iterator[str]:
    parameters = said.get("parameters", ())
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


def _body(said: Said) -> Iterator[str]:
    for media_type, content in said.get("requestBody", {}).get("content", {}).items():
        needed = "" if said["requestBody"].get("required") else ", may be left out"
        yield f"<h4>Body</h4>\n<p><code>{text_of(media_type)}</code>{needed}</p>"
        yield f'<pre tabindex="0">{example(content["example"])}</pre>'
        yield f"<details><summary>Its fields</summary>\n{_fields(content['schema'])}\n</details>"


def _answers(said: Said) -> Iterator[str]:
    for status, answer in said["responses"].items():
        if status == "default":
            continue
        yield f"<h4>Answer {text_of(status)}</h4>"
        if answer["description"] != "Successful Response":  # as FastAPI says, if nobody else does
            yield f"<p>{prose(answer['description'])}</p>"
        for media_type, content in answer.get("content", {}).items():
            examples = content.get("examples") or {"": {"value": content["example"]}}
            models = _type_of(content.get("schema", {}))
            yield f"<p><code>{text_of(media_type)}</code> {models if 'href' in models else ''}</p>"
            yield from (f'<pre tabindex="0">{example(each["value"])}</pre>' for each in examples.values())


def _problems(said: Said) -> str:
    names = ", ".join(
        name if name in OF_MANY else f'<a href="#problem-{name}">{name}</a>' for name in said["x-problems"]
    )
    return f'<h4><a href="#problems">Problems</a></h4>\n<p>{names}</p>'


def curl_of(path: str, method: str, said: Said, schemas: Mapping[str, Said]) -> str:
    """Write how to ask for an operation with curl, by its examples."""
    names = NAMES | OF_TAGS.get(said["tags"][0], {})
    query = []
    for parameter in said.get("parameters", ()):
        if parameter["in"] == "path":
            name = parameter["name"]
            path = path.replace(f"{{{name}}}", quote(str(names.get(name, name)), safe=""))
        elif parameter["in"] == "query" and parameter.get("required"):
            query.append(f"{parameter['name']}={quote(str(_example_of(parameter, schemas)), safe='')}")
    words = ["curl", "-sf", BASE + path + (f"?{'&'.join(query)}" if query else "")]
    body = said.get("requestBody", {}).get("content", {})
    if method.upper() != ("POST" if body else "GET"):
        words += ["-X", method.upper()]
    if "security" in said:
        words += ["-H", "Authorization: Bearer sck_…"]
    for media_type, content in body.items():
        is_text = isinstance(content["example"], str)
        words += ["-H", f"Content-Type: {media_type}", "--data-binary"] if is_text else ["--json"]
        words.append(content["example"] if is_text else json.dumps(content["example"], ensure_ascii=False))
    return shlex.join(words)


def _example_of(parameter: Said, schemas: Mapping[str, Said]) -> object:
    return parameter["example"] if "example" in parameter else example_of(parameter["schema"], schemas)


def _fields(schema: Said) -> str:
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


def _type_of(schema: Said) -> str:
    """Name what a value is, with a link if it is a model, and its default if it has one."""
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
