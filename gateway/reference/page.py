"""The API's reference as one page of HTML, without scripts and without external files."""

import asyncio
import base64
import hashlib
from collections.abc import Mapping
from pathlib import Path
from string import Template
from typing import Any

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from shardclock.api.codes import GENERAL
from shardclock_server.gateway.reference.page_parts import (
    contents_of,
    example,
    headers_of,
    models_of,
    operations_of,
    prose,
)

PATH = "/docs"
STYLE = (Path(__file__).parent / "page.css").read_text(encoding="utf-8")
PAGE = Template((Path(__file__).parent / "page.html").read_text(encoding="utf-8"))
DIGEST = base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()
HEADERS = {
    "Content-Security-Policy": (
        f"default-src 'none'; style-src 'sha256-{DIGEST}'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",
}


async def docs(request: Request) -> Response:
    """Serve the reference without a key, like /openapi.json, because it contains no secret.

    The first request renders the page in a thread, because the rendering would block the event loop for a quarter of a
    second.
    """
    app = request.app
    if not hasattr(app.state, "page"):
        app.state.page = await asyncio.to_thread(lambda: page_of(app.openapi()))
    return HTMLResponse(app.state.page, headers=HEADERS)


def page_of(reference: Mapping[str, Any]) -> str:
    """Render the page of a reference."""
    info, schemas = reference["info"], reference["components"]["schemas"]
    return PAGE.substitute(
        title=prose(info["title"]),
        version=prose(info["version"]),
        description=prose(info["description"]),
        style=STYLE,
        contents=contents_of(reference),
        operations=operations_of(reference),
        headers=headers_of(reference),
        models=models_of(schemas),
        problem=example(_a_problem(schemas["ProblemAnswer"])),
        problems="\n".join(
            f'<tr id="problem-{code.name}"><td><code>{code.type}</code></td><td>{code.status}</td>'
            f"<td>{prose(code.title)}</td></tr>"
            for code in GENERAL
        ),
    )


def _a_problem(schema: Mapping[str, Any]) -> dict[str, Any]:
    return {name: part["examples"][0] for name, part in schema["properties"].items()}
