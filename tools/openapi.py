"""Write docs/openapi.json, the reference of the HTTP API, from its routes: python -m tools.openapi."""

from __future__ import annotations

import json
import sys

from shardclock_server.gateway.app import make_app
from shardclock_server.gateway.settings import GatewaySettings
from tests.support import ROOT

PAGE = ROOT / "docs" / "openapi.json"


def read_page() -> str:
    """Write the page."""
    app = make_app(GatewaySettings(), "postgresql://nobody@localhost/none", needs_keys=True)
    return json.dumps(app.openapi(), indent=2, ensure_ascii=False) + "\n"


def main() -> None:
    """Write docs/openapi.json."""
    PAGE.write_text(read_page(), encoding="utf-8")
    sys.stdout.write(f"{PAGE} is written\n")


if __name__ == "__main__":
    main()
