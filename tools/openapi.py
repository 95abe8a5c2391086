"""Write docs/openapi.json, the reference of the HTTP API, from its routes: python -m tools.openapi."""

from __future__ import annotations

import json
import sys

from shardclock_server.gateway.app import make_app
from shardclock_server.gateway.settings import GatewaySettings
from tests.support import ROOT

PAGE = ROOT / "docs" / "openapi.json"


def read_page() -> str:
    """Write the page: each operation and each model has its own line, so that a diff shows the changed lines."""
    app = make_app(GatewaySettings(), "postgresql://nobody@localhost/none", needs_keys=True)
    return _lines(app.openapi(), depth=3) + "\n"


def _lines(part: object, *, depth: int, indent: str = "") -> str:
    """Write the outer `depth` levels with a line for each entry, and each deeper value on one line."""
    if not depth or not isinstance(part, dict) or not part:
        return json.dumps(part, ensure_ascii=False)
    inner = indent + " "
    entries = (
        f"{inner}{json.dumps(key)}: {_lines(value, depth=depth - 1, indent=inner)}" for key, value in part.items()
    )
    return "{\n" + ",\n".join(entries) + f"\n{indent}}}"


def main() -> None:
    """Write docs/openapi.json."""
    PAGE.write_text(read_page(), encoding="utf-8")
    sys.stdout.write(f"{PAGE} is written\n")


if __name__ == "__main__":
    main()
