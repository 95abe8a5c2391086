"""A fake API server for Helm's function `lookup`: it answers with the objects of a test, and stores no object."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

# The kinds of the charts and of their questions, by group: the plural, and the kind.
GROUPS = {
    "": {"configmaps": "ConfigMap", "pods": "Pod", "serviceaccounts": "ServiceAccount", "services": "Service"},
    "apps": {"deployments": "Deployment"},
    "autoscaling": {"horizontalpodautoscalers": "HorizontalPodAutoscaler"},
    "batch": {"jobs": "Job"},
    "networking.k8s.io": {"networkpolicies": "NetworkPolicy"},
    "policy": {"poddisruptionbudgets": "PodDisruptionBudget"},
    "ray.io": {"rayclusters": "RayCluster"},
}
NOT_FOUND = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "NotFound", "code": 404}


def discovery() -> dict[str, Any]:
    """Return the answers that name the kinds, by their paths."""
    numbers = {group: "v2" if group == "autoscaling" else "v1" for group in GROUPS}
    versions = {group: f"{group}/{number}".removeprefix("/") for group, number in numbers.items()}
    found: dict[str, Any] = {
        "/version": {"major": "1", "minor": "37", "gitVersion": "v1.37.2"},
        "/api": {"kind": "APIVersions", "versions": ["v1"]},
        "/apis": {
            "kind": "APIGroupList",
            "groups": [
                {"name": group, "versions": [{"groupVersion": version, "version": numbers[group]}]}
                for group, version in versions.items()
                if group
            ],
        },
    }
    for group, kinds in GROUPS.items():
        found[f"/apis/{versions[group]}" if group else "/api/v1"] = {
            "kind": "APIResourceList",
            "groupVersion": versions[group],
            "resources": [
                {"name": plural, "kind": kind, "namespaced": True, "verbs": ["get", "list"]}
                for plural, kind in kinds.items()
            ],
        }
    return found


@contextmanager
def api_server(place: Path, answers: dict[str, Any]) -> Iterator[Path]:
    """Answer the given paths while the block runs; yield the file with the server's address."""
    known = discovery() | answers

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            answer = known.get(self.path.partition("?")[0])
            body = json.dumps(NOT_FOUND if answer is None else answer).encode()
            self.send_response(404 if answer is None else 200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - its name in the standard library
            """Print no requests."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        config = place / "kubeconfig"
        address = f"http://127.0.0.1:{server.server_port}"
        config.write_text(
            json.dumps(
                {
                    "apiVersion": "v1",
                    "kind": "Config",
                    "clusters": [{"name": "fake", "cluster": {"server": address}}],
                    "users": [{"name": "fake", "user": {"token": "none"}}],
                    "contexts": [{"name": "fake", "context": {"cluster": "fake", "user": "fake"}}],
                    "current-context": "fake",
                }
            )
        )
        try:
            yield config
        finally:
            server.shutdown()
            thread.join()
