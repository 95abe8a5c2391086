"""Give tests a real Prometheus: a server on loopback that scrapes the targets of the test, and promtool."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from tests.support.program import until

ABSENT = "Prometheus is not installed here: `make prometheus` installs Debian's"
ANSWER_S = 10.0
PROMTOOL_S = 300.0  # testing all cases of the rules takes most of a minute


def program(name: str) -> str:
    """Find `prometheus` or `promtool`, or skip the test with the reason."""
    return shutil.which(name) or pytest.skip(ABSENT)


def promtool(*arguments: object, stdin: str = "", cwd: Path | None = None, may_fail: bool = False) -> str:
    """Run promtool and return its output; fail if promtool fails, except with `may_fail`."""
    done = subprocess.run(
        [program("promtool"), *map(str, arguments)],
        input=stdin,
        capture_output=True,
        text=True,
        timeout=PROMTOOL_S,
        check=False,
        cwd=cwd,
    )
    said = done.stdout + done.stderr
    assert may_fail or done.returncode == 0, said
    return said


class Prometheus:
    """One Prometheus server with its own directory and port; `close` removes all its files."""

    def __init__(self, targets: list[str], *, rules: str = "", scrape_s: float = 0.5, job: str = "shardclock") -> None:
        self._program = program("prometheus")
        self._place = Path(tempfile.mkdtemp(prefix="shardclock-prometheus-"))
        self._write(targets, rules, scrape_s, job)
        self.url = f"http://127.0.0.1:{_free_port()}"
        with (self._place / "said").open("wb") as said:
            self._process = subprocess.Popen(self._command(), stdout=said, stderr=said)
        try:
            until(self._is_ready, "Prometheus to start")
        except BaseException:
            self.close()
            raise

    def ask(self, path: str, **parameters: object) -> Any:
        """Ask the HTTP API; return the `data` of its answer."""
        query = urllib.parse.urlencode(parameters)
        with urllib.request.urlopen(f"{self.url}/api/v1/{path}?{query}", timeout=ANSWER_S) as answer:
            return json.load(answer)["data"]

    def query(self, expression: str) -> list[dict[str, Any]]:
        """Evaluate an expression now; return its samples."""
        found = self.ask("query", query=expression)
        assert found["resultType"] == "vector", expression
        return list(found["result"])

    def value(self, expression: str) -> float | None:
        """Evaluate an expression now; return the value of its first sample, or None if it has no sample."""
        found = self.query(expression)
        return float(found[0]["value"][1]) if found else None

    def query_range(self, expression: str, *, over_s: float, step_s: float = 1.0) -> list[dict[str, Any]]:
        """Evaluate an expression over the last `over_s`; return its series."""
        now_s = time.time()
        return list(self.ask("query_range", query=expression, start=now_s - over_s, end=now_s, step=step_s)["result"])

    def alerts(self, *, firing: bool = True) -> dict[str, dict[str, Any]]:
        """Return by name the alerts that fire now; with `firing=False` also the pending alerts."""
        found = self.ask("alerts")["alerts"]
        return {alert["labels"]["alertname"]: alert for alert in found if not firing or alert["state"] == "firing"}

    def close(self) -> None:
        """Stop the server and remove its files."""
        self._process.terminate()
        try:
            self._process.wait(ANSWER_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        shutil.rmtree(self._place, ignore_errors=True)

    def _command(self) -> list[str]:
        return [
            self._program,
            f"--config.file={self._place / 'prometheus.json'}",
            f"--storage.tsdb.path={self._place / 'data'}",
            f"--web.listen-address={self.url.removeprefix('http://')}",
            "--log.level=warn",
        ]

    def _write(self, targets: list[str], rules: str, scrape_s: float, job: str) -> None:
        interval = f"{scrape_s * 1000:.0f}ms"
        (self._place / "rules.yaml").write_text(rules or "groups: []")
        config = {
            "global": {"scrape_interval": interval, "scrape_timeout": interval, "evaluation_interval": interval},
            "rule_files": ["rules.yaml"],
            "scrape_configs": [{"job_name": job, "static_configs": [{"targets": targets}]}],
        }
        (self._place / "prometheus.json").write_text(json.dumps(config))  # JSON is YAML as well

    def _is_ready(self) -> bool:
        assert self._process.poll() is None, (self._place / "said").read_text()
        try:
            with urllib.request.urlopen(f"{self.url}/-/ready", timeout=ANSWER_S) as answer:
                return bool(answer.status == 200)
        except (urllib.error.URLError, ConnectionError):
            return False


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])
