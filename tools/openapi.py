"""Write docs/openapi.json, the reference of the HTTP API, from its routes: python -m tools.openapi."""

from __future__ import annotations

import json
import sys

from shardclock_server.gateway.app import make_app
from shardclock_server.gateway.settings import GatewaySettings
from tests.support import ROOT

PAGE = ROOT / "docs" / "openapi.json"


def read_page() -> str:
    """Return the document with each operation and each model on one line, so that a diff shows the changed ones."""
    app = make_app(GatewaySettings(), "postgresql://nobody@localhost/none", needs_keys=True)
    return _lines(app.openapi(), depth=3) + "\n"


def _lines(part: object, *, depth: int, indent: str = "") -> str:
    """Format JSON with a line for each entry of the outer `depth` levels; deeper values are on one line."""
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
