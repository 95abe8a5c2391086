"""A fake `kubectl` that records its calls, and a Kubernetes that consists of files."""

from __future__ import annotations

import ast
import os
import re
import stat
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.manifests import K8S, OVERLAYS

RUN_S = 60

# The fake answers from files that a test writes; `applied` and `switched` change these answers. A script calls the fake
# twenty times: with the imports of json and pathlib, each start would take twice as long.
KUBECTL = """
import os, sys
place = os.environ["FAKE"]
words = sys.argv[1:]
with open(place + "/asked", "a") as asked:
    print(words, file=asked)
with open(place + "/state") as kept:
    state = eval(kept.read())
line = " ".join(words)
def keep():
    with open(place + "/state", "w") as kept:
        print(state, file=kept)
if " get " in line and state["broken"] in words:
    sys.exit("Unable to connect to the server")
if words[0] == "config":
    print("somewhere")
elif " get namespace " in line:
    print(f"namespace/{words[4]}" if state["namespace"] is not None else "", end="")
elif words[:2] == ["create", "namespace"]:
    state["namespace"] = {}
    keep()
elif words == ["apply", "--filename=-"]:
    state["applied"] = sys.stdin.read()
    keep()
elif " get secret " in line:
    name, key = words[4], words[-1].partition(".data.")[2].rstrip("}")
    print("x" if [name, key] in state["secrets"] else "", end="")
elif " get raycluster " in line and "replicas" in line:
    print(state["replicas"], end="")
elif " get raycluster " in line and "image" in line:
    print(state["image"], end="")
elif words[0] == "kustomize":
    print(state["manifests"])
elif " get raycluster " in line:
    print(f"raycluster/{words[4]}" if words[4] in state["clusters"] else "", end="")
elif " get pods " in line:
    print(state["head"])
elif " get networkpolicy " in line:
    print(f"networkpolicy/{words[4]}" if words[4].rpartition("-")[2] in state["policies"] else "", end="")
elif " get deployment " in line:
    print("deployment/shardclock-gateway" if state["gateway"] else "", end="")
elif " rollout status deployment/shardclock-gateway " in line and state["gateway"] == "crashes":
    sys.exit("error: timed out waiting for the condition")
elif words[0] == "apply" and words[-1].rpartition("/")[2] in ("blue", "green"):
    state["clusters"] = sorted({*state["clusters"], "shardclock-" + words[-1].rpartition("/")[2]})
    keep()
elif " delete raycluster " in line:
    state["clusters"] = [name for name in state["clusters"] if name != words[4]]
    keep()
elif " wait pod " in line and state["pods"] == "stay":
    sys.exit("error: timed out waiting for the condition on pods/shardclock-blue-head")
elif words[0] == "delete":
    state["policies"] = []
    keep()
elif " wait job/" in line and state["migration"] == "fails":
    sys.exit("error: timed out waiting for the condition")
elif "status" in words and "--json" in words and state["exec"] == "fails":
    sys.exit("error: Internal error occurred: unable to upgrade connection: pod does not exist")
elif "status" in words and "--json" in words:
    warm = [name for name in state["clusters"] if name not in state["cold"]]
    leader = state["leader"] if state["leader"] in warm else (warm or [None])[0]
    import json
    print(json.dumps({
        "shards_wanted": 2,
        "shards": [{"cluster_id": name, "shard": i if name == leader else None} for name in warm for i in range(2)],
        "workers_wanted": state["wanted"],
        "workers": [
            {"cluster_id": name, "worker": i if name == leader else None}
            for name in state["clusters"] for i in range(state["workers"])
        ],
        "engines": [
            {"cluster_id": name, "engine": i if state["engines"].get(name) == "serve" else None}
            for name in state["clusters"] if name in state["engines"] for i in range(2)
        ],
        "processes": {"engines_wanted": state["engines_wanted"], "engines_alive": 2},
    }, indent=1))
elif "switch" in words and state["switch"] == "fails":
    sys.exit("shardclock: nothing was switched")
elif "switch" in words:
    state["leader"] = words[words.index("switch") + 1]
    state["head"] = state["head_after"] or state["head"]
    keep()
"""


@dataclass
class FakeKubernetes:
    """The directory of a fake Kubernetes: its state and its recorded calls."""

    path: Path

    @classmethod
    def made_in(cls, path: Path) -> FakeKubernetes:
        """Make a Kubernetes with every secret, and without a Ray cluster."""
        program = path / "bin" / "kubectl"
        program.parent.mkdir()
        program.write_text(f"#!{sys.executable} -IS\n{KUBECTL}")  # the fake needs no module `site`
        program.chmod(program.stat().st_mode | stat.S_IXUSR)
        (path / "asked").touch()
        secrets = [line.split() for overlay in OVERLAYS for line in secrets_of(overlay)]
        state: dict[str, Any] = {
            "namespace": None,
            "broken": "",
            "secrets": secrets,
            "clusters": [],
            "policies": [],
            "pods": "go",
            "gateway": None,
            "image": "shardclock:new",
            "manifests": "spec:\n      image: shardclock:new\n    image: shardclock:new\n  - groupName: shards",
            "workers": 0,
            "wanted": 2,
            "engines": {},
            "engines_wanted": 0,
            "cold": [],
            "head": "head-1/true/",  # its UID, whether Ray runs in it, and the moment at which its end began
            "head_after": "",  # the status after the switch, if it changes
            "replicas": "",
            "applied": "",
            "exec": "works",
            "leader": None,
            "migration": "completes",
            "switch": "works",
        }
        (path / "state").write_text(repr(state))
        return cls(path)

    def upgrade(self, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        path = f"{self.path / 'bin'}:{os.environ['PATH']}"
        return subprocess.run(
            [str(K8S / "upgrade.sh"), *arguments],
            env=os.environ | {"PATH": path, "FAKE": str(self.path), "WAIT_S": "20", "LOOK_S": "0.01"} | environment,
            capture_output=True,
            text=True,
            timeout=RUN_S,
            check=False,
        )

    @property
    def state(self) -> dict[str, Any]:
        state: dict[str, Any] = ast.literal_eval((self.path / "state").read_text())
        return state

    def becomes(self, **parts: Any) -> None:
        (self.path / "state").write_text(repr(self.state | parts))

    def asked(self) -> list[str]:
        """List the recorded calls that change the state."""
        lines = [" ".join(ast.literal_eval(line)) for line in (self.path / "asked").read_text().splitlines()]
        looks = re.compile(r" get |config |status --json|^kustomize ")
        return [line for line in lines if not looks.search(line)]


def secrets_of(overlay: str) -> list[str]:
    lines = (K8S / "overlays" / overlay / "secrets").read_text().splitlines()
    return [line for line in lines if not line.startswith("#")]
