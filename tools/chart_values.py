"""Write the README of each Helm chart, with a table of its values, from the schema: python -m tools.chart_values."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml  # type: ignore[import-untyped]

from tests.support import ROOT

CHARTS = [ROOT / "k8s" / "charts" / name for name in ("shardclock", "shardclock-cluster")]
TYPES = {"text", "count"}  # definitions of types; all other definitions are values that several components share
HEAD = """# {name}

{description}. [Kubernetes](../../../docs/operate/kubernetes.md) shows how to use the chart.

<!-- Written by `make docs`. To change this page, edit values.schema.json and values.yaml. -->

| value | default | |
|---|---|---|
{rows}

{parts} have these values, too:

| value | |
|---|---|
{shared}
"""


def read_page(chart: Path) -> str:
    """Return the page of a chart; a separate table has the values that several components share."""
    schema = json.loads((chart / "values.schema.json").read_text(encoding="utf-8"))
    values = yaml.safe_load((chart / "values.yaml").read_text(encoding="utf-8"))
    about = yaml.safe_load((chart / "Chart.yaml").read_text(encoding="utf-8"))
    shared = {name: it for name, it in schema["definitions"].items() if name not in TYPES}
    parts = [f"`{name}`" for name, it in schema["properties"].items() if _is_part(it)]
    return HEAD.format(
        name=about["name"],
        description=about["description"],
        rows="\n".join(_rows(schema, values, "")),
        parts=f"{', '.join(parts[:-1])} and {parts[-1]}",
        shared="\n".join(f"| `{name}` | {it['description']} |" for name, it in shared.items()),
    )


def _rows(schema: Any, values: Any, above: str) -> Iterator[str]:
    for name, found in schema["properties"].items():
        default = values.get(name) if isinstance(values, dict) else None
        is_shared = _is_part(schema) and found.get("$ref", "").rpartition("/")[2] not in {"", *TYPES}
        if is_shared:
            continue
        if "properties" in found and "patternProperties" not in found:
            yield from _rows(found, default or {}, f"{above}{name}.")
        else:
            yield f"| `{above}{name}` | {_written(default)} | {found['description'].replace('|', '/')} |"


def _is_part(schema: Any) -> bool:
    """Return whether a value describes the pods of a component, which also has the shared values."""
    return "nodeSelector" in schema.get("properties", {})


def _written(default: object) -> str:
    return "" if default in (None, "", [], {}) else f"`{json.dumps(default)}`"


def main() -> None:
    """Write both pages."""
    for chart in CHARTS:
        page = chart / "README.md"
        page.write_text(read_page(chart), encoding="utf-8")
        sys.stdout.write(f"{page} is written\n")


if __name__ == "__main__":
    main()
