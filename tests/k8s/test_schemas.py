"""Validate every object of the overlays with the strict schema of its kind, which refuses unknown fields."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import kubernetes_validate  # type: ignore[import-untyped]
import pytest
import yaml  # type: ignore[import-untyped]

from tests.support import ROOT
from tests.support.manifests import BUILDS, VARIANTS, Object, build, of_kind

RAY_SCHEMA = ROOT.parent / "shared" / "k8s" / "ray.io_rayclusters.yaml"  # KubeRay 1.7's
# The oldest Kubernetes with sidecar containers, and a recent Kubernetes.
VERSIONS = ["1.29", "1.36"]

STRINGS = {"type": "object", "additionalProperties": {"type": "string"}}
QUANTITIES = {"type": "object", "additionalProperties": {"type": ["string", "integer"]}}


def exactly(*required: str, **properties: Any) -> Object:
    """Return the schema of an object with only these fields."""
    return {"type": "object", "properties": properties, "required": list(required), "additionalProperties": False}


def one_of(*values: str) -> Object:
    """Return the schema of a string with few values."""
    return {"type": "string", "enum": list(values)}


TEXT, NUMBER, TRUTH = {"type": "string"}, {"type": "integer"}, {"type": "boolean"}
LIST = {"type": "array", "items": TEXT}
DURATION = {"type": "string", "pattern": r"^(\d+(ms|s|m|h|d|w|y))+$"}
SPREAD = {
    "type": "array",
    "items": exactly(
        "maxSkew",
        "topologyKey",
        "whenUnsatisfiable",
        maxSkew=NUMBER,
        topologyKey=TEXT,
        whenUnsatisfiable=one_of("DoNotSchedule", "ScheduleAnyway"),
        labelSelector=exactly(matchLabels=STRINGS),
    ),
}
STORAGE = exactly("size", size=TEXT, storageClass=TEXT)

# No package has the schemas of these operators, so this file lists the fields that we use, from the operators' API
# references.
BY_HAND: dict[str, Object] = {
    "postgresql.cnpg.io/v1 Cluster": exactly(
        "instances",
        imageName=TEXT,
        instances=NUMBER,
        enableSuperuserAccess=TRUTH,
        bootstrap=exactly(initdb=exactly(database=TEXT, owner=TEXT, encoding=TEXT, postInitSQL=LIST)),
        storage=STORAGE,
        walStorage=STORAGE,
        resources=exactly(requests=QUANTITIES, limits=QUANTITIES),
        topologySpreadConstraints=SPREAD,
        affinity=exactly(
            enablePodAntiAffinity=TRUTH, podAntiAffinityType=one_of("preferred", "required"), topologyKey=TEXT
        ),
        postgresql=exactly(
            parameters=STRINGS,
            pg_hba=LIST,
            synchronous=exactly(
                "method",
                "number",
                method=one_of("any", "first"),
                number=NUMBER,
                dataDurability=one_of("required", "preferred"),
            ),
        ),
    ),
    "monitoring.coreos.com/v1 PodMonitor": exactly(
        "selector",
        selector=exactly(matchLabels=STRINGS),
        podMetricsEndpoints={
            "type": "array",
            "items": exactly("port", port=TEXT, path=TEXT, interval=DURATION, scrapeTimeout=DURATION),
        },
    ),
    "monitoring.coreos.com/v1 PrometheusRule": exactly(
        "groups",
        groups={
            "type": "array",
            "items": exactly(
                "name",
                "rules",
                name=TEXT,
                interval=DURATION,
                rules={
                    "type": "array",
                    "items": exactly(
                        "expr",
                        record=TEXT,
                        alert=TEXT,
                        expr={"type": ["string", "integer"]},
                        labels=STRINGS,
                        annotations=STRINGS,
                        **{"for": DURATION, "keep_firing_for": DURATION},
                    ),
                },
            ),
        },
    ),
}


@pytest.mark.parametrize("path", BUILDS)
@pytest.mark.parametrize("version", VERSIONS)
def test_every_object_of_kubernetes_fits_its_schema(path: str, version: str) -> None:
    objects = [found for found in build(path) if not _is_custom(found)]
    assert objects
    for found in objects:
        assert_fits(json.dumps(found), version)


@cache
def assert_fits(written: str, version: str) -> None:
    """Validate an object. The result is cached, because several builds contain the same objects."""
    kubernetes_validate.validate(json.loads(written), version, strict=True)


@pytest.mark.parametrize("path", [path for path in BUILDS if path.count("/") == 2])
def test_the_ray_cluster_fits_kuberays_schema(path: str) -> None:
    (cluster,) = of_kind(build(path), "RayCluster")
    assert cluster["apiVersion"] == "ray.io/v1"
    of_ray().validate(cluster)


@pytest.mark.parametrize("overlay", VARIANTS)
def test_every_other_object_has_the_fields_that_its_operator_reads(overlay: str) -> None:
    for found in build(f"overlays/{overlay}"):
        if _is_custom(found):
            jsonschema.validate(found["spec"], BY_HAND[f"{found['apiVersion']} {found['kind']}"])


def test_an_unknown_field_is_refused_by_each_schema() -> None:
    # Given objects of all three kinds, each with a typing mistake
    (policy, *_) = of_kind(build("overlays/prod"), "NetworkPolicy")
    (cluster,) = of_kind(build("overlays/prod/blue"), "RayCluster")
    (postgres,) = of_kind(build("overlays/prod"), "Cluster")

    # Then each object is refused
    with pytest.raises(kubernetes_validate.ValidationError, match="podSelecter"):
        kubernetes_validate.validate(policy | {"spec": {"podSelecter": {}}}, VERSIONS[0], strict=True)
    with pytest.raises(jsonschema.ValidationError, match="autoscalerOption"):
        of_ray().validate(cluster | {"spec": {"autoscalerOption": {}, **cluster["spec"]}})
    with pytest.raises(jsonschema.ValidationError, match="instanses"):
        jsonschema.validate(postgres["spec"] | {"instanses": 3}, BY_HAND["postgresql.cnpg.io/v1 Cluster"])


@cache
def of_ray() -> Any:
    """Make a validator of KubeRay's RayCluster that refuses the fields that the API server would silently drop."""
    if not RAY_SCHEMA.exists():
        pytest.skip(f"no {RAY_SCHEMA.name} beside the checkout: KubeRay's schema is not ours to ship")
    versions = yaml.load(RAY_SCHEMA.read_text(), yaml.CSafeLoader)["spec"]["versions"]
    (schema,) = (version["schema"]["openAPIV3Schema"] for version in versions if version["name"] == "v1")
    schema["properties"]["metadata"] = {"type": "object"}
    return jsonschema.Draft202012Validator(_closed(schema))


def _closed(schema: Any) -> Any:
    """Convert a structural schema into a JSON schema that refuses unknown fields."""
    if isinstance(schema, list):
        return [_closed(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    closed = {key: _closed(part) for key, part in schema.items()}
    if schema.get("x-kubernetes-int-or-string"):
        return {"type": ["integer", "string"]}
    if "properties" in schema and isinstance(schema["properties"], dict):
        closed["properties"] = {name: _closed(part) for name, part in schema["properties"].items()}
        if "additionalProperties" not in schema and not schema.get("x-kubernetes-preserve-unknown-fields"):
            closed["additionalProperties"] = False
    return closed


def _is_custom(found: Object) -> bool:
    group = found["apiVersion"].partition("/")[0]
    return "." in group and not group.endswith("k8s.io")
