"""Test that the values of the Helm charts are described, and that a wrong value is refused with the way out."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import pytest
import yaml  # type: ignore[import-untyped]

from tests.support import ROOT
from tests.support.charts import CLUSTER, SHARED, render, template
from tests.support.manifests import Object
from tools.chart_values import read_page

CHARTS = [SHARED, CLUSTER]
PAGE = (ROOT / "docs/operate/kubernetes.md").read_text()
each_chart = pytest.mark.parametrize("chart", CHARTS, ids=lambda chart: chart.name)


def schema_of(chart: Path) -> Any:
    return json.loads((chart / "values.schema.json").read_text())


def described(schema: Any, of: Any, path: str = "") -> Iterator[tuple[str, bool, bool]]:
    """List the values of a schema: the path, whether it has a description, and whether it refuses unknown values."""
    for name, each in of.get("properties", {}).items():
        reference = each.get("$ref", "").rpartition("/")[2]
        full = schema["definitions"].get(reference, {}) | each
        is_closed = "properties" not in full or full.get("additionalProperties") is False
        yield f"{path}.{name}", bool(full.get("description", "").endswith(".")), is_closed
        yield from described(schema, full, f"{path}.{name}")


@each_chart
def test_each_value_has_a_description_and_an_unknown_one_is_refused(chart: Path) -> None:
    schema = schema_of(chart)
    jsonschema.Draft7Validator.check_schema(schema)
    found = list(described(schema, schema))
    assert len(found) > 30
    assert [path for path, has_description, is_closed in found if not (has_description and is_closed)] == []
    assert schema["additionalProperties"] is False


@each_chart
def test_the_default_values_fit_the_schema(chart: Path) -> None:
    jsonschema.validate(yaml.safe_load((chart / "values.yaml").read_text()), schema_of(chart))


def filled(values: Object, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """List the paths of the values, without empty texts: a template reads a text that null removed as an empty text."""
    for name, each in values.items():
        if each != "":
            yield (*path, name)
        if isinstance(each, dict):
            yield from filled(each, (*path, name))


@each_chart
def test_a_value_that_null_removes_is_missed_by_its_name(chart: Path) -> None:
    # Helm removes a value that is null before it reads the schema.
    validator = jsonschema.Draft7Validator(schema_of(chart))
    paths = list(filled(yaml.safe_load((chart / "values.yaml").read_text())))
    assert len(paths) > 30
    for *above, name in paths:
        values = yaml.safe_load((chart / "values.yaml").read_text())
        place = values
        for part in above:
            place = place[part]
        del place[name]
        assert [it.message for it in validator.iter_errors(values)] == [f"'{name}' is a required property"]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("SHARDCLOCK_DSN", "postgresql://"),
        ("PGPASSWORD", "secret"),
        ("SHARDCLOCK_GATEWAY_OIDC_SECRET", "secret"),
        ("SHARDCLOCK_RAY_AUTH_TOKEN", "secret"),
        ("SHARDCLOCK_API_KEY", "secret"),
    ],
)
def test_a_secret_in_the_settings_is_refused_with_the_way_out(name: str, value: str) -> None:
    done = template(SHARED, {"identity": "shop", "settings": {name: value}})
    assert done.returncode != 0
    assert f"`settings` has {name} in plain text" in done.stderr
    assert "put it into a Secret, and name the Secret in `postgres.secret`, `gateway.oidc.secret`" in done.stderr


@each_chart
def test_a_parent_chart_may_have_the_chart_as_a_dependency(chart: Path, tmp_path: Path) -> None:
    # Helm adds the value `global` to the values of each dependency.
    (tmp_path / "Chart.yaml").write_text("{apiVersion: v2, name: parent, version: 0.1.0}")
    (tmp_path / "charts").mkdir()
    (tmp_path / "charts" / chart.name).symlink_to(chart)
    own = {"identity": "shop"} if chart == SHARED else {}
    assert render(tmp_path, {"global": {"team": "shop"}, chart.name: own}) == render(chart, own)


@pytest.mark.parametrize(
    ("chart", "values", "reason"),
    [
        (SHARED, {}, "`identity` is empty"),
        (SHARED, {"identity": "shop", "gatway": {}}, "gatway"),
        (SHARED, {"identity": "shop", "gateway": {"replicas": None}}, "at '/gateway': missing property 'replicas'"),
        (SHARED, {"identity": "shop", "settings": {"SHARDCLOCK_METRICS_PORT": "9850"}}, "contradicts the chart's"),
        (SHARED, {"identity": "shop", "settings": {"LOG": "1"}}, "LOG"),
        (SHARED, {"identity": "shop", "image": {"digest": "latest"}}, "digest"),
        (CLUSTER, {"colour": "red"}, "colour"),
        (CLUSTER, {"shards": {"replicas": 0}}, "replicas"),
        (CLUSTER, {"shards": {"replicas": None}}, "at '/shards': missing property 'replicas'"),
        (CLUSTER, {"workers": {"app": {"image": "shop:1.0.0"}}}, "`workers.app.modules`"),
        (CLUSTER, {"workers": {"app": {"image": "shop:1.0.0", "modules": "shop"}}}, "`workers.enabled`"),
    ],
)
def test_a_wrong_value_is_refused_by_its_name(chart: Path, values: Object, reason: str) -> None:
    done = template(chart, values)
    assert done.returncode != 0
    assert reason in done.stderr


def test_the_page_names_existing_values() -> None:
    paths = {path.removeprefix(".") for chart in CHARTS for path, *_ in described(schema_of(chart), schema_of(chart))}
    first = {path.partition(".")[0] for path in paths}
    named = {it for it in re.findall(r"`(\w+(?:\.\w+)+)`", PAGE) if it.partition(".")[0] in first}
    assert len(named) > 15
    assert named - paths == set()


@each_chart
def test_the_readme_is_the_output_of_make_docs(chart: Path) -> None:
    assert (chart / "README.md").read_text() == read_page(chart), "a chart's values have changed: run make docs"
