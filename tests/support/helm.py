"""A fake `helm` beside the fake `kubectl`: it records its calls, and refuses values that a chart's schema does not
have.
"""

from __future__ import annotations

import stat
import sys
from typing import Any

from tests.support.kubectl import FakeKubernetes

# The fake stores each release as its values, in the file `state`. It runs in the folder of the charts, as `upgrade.sh`
# does.
HELM = """
import json, os, sys
place = os.environ["FAKE"]
words = sys.argv[3:]
with open(place + "/asked", "a") as asked:
    print(["helm", *words], file=asked)
with open(place + "/state") as kept:
    state = eval(kept.read())
def keep():
    with open(place + "/state", "w") as kept:
        print(state, file=kept)
def after(option):
    return [words[i + 1] for i, word in enumerate(words) if word == option]
def values_for(chart):
    with open(chart + "/values.schema.json") as file:
        schema = json.load(file)
    found = json.load(sys.stdin) if "-" in after("--values") else {}
    for pair in ",".join(after("--set")).split(","):
        path, _, value = pair.partition("=")
        if path:
            check(chart, schema, path.split("."))
            found[path] = value
    return found
def check(chart, of, steps):
    for step in steps:
        if step not in of["properties"]:
            sys.exit(f"Error: values of {chart}: additional properties '{step}' not allowed")
        of = of["properties"][step]
if words[0] == "list" and "--pending" in words:
    print(*state.get("pending", []))
elif words[0] == "list":
    name = after("--filter")[0].strip("^$")
    print(name if name in state["releases"] else "", end="")
elif words[:2] == ["get", "values"]:
    print(json.dumps(state["releases"][words[2]]))
elif words[0] == "template":
    values_for(words[2])
    print(state["manifests"])
elif words[0] == "upgrade":
    name, chart = [word for word in words[1:] if not word.startswith("-")][:2]
    values = values_for(chart)
    if "--dry-run=server" not in words:
        state["releases"][name] = values
        if chart.endswith("-cluster"):
            state["clusters"] = sorted({*state["clusters"], name})
        keep()
elif words[0] == "uninstall":
    state["releases"].pop(words[1], None)
    keep()
"""


def add_helm(place: FakeKubernetes, **releases: dict[str, Any]) -> None:
    """Add the program `helm`, the release of the shared parts, and more releases, such as `blue`, with their values."""
    program = place.path / "bin" / "helm"
    program.write_text(f"#!{sys.executable} -IS\n{HELM}")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    place.becomes(releases={"shardclock": {}} | {f"shardclock-{colour}": its for colour, its in releases.items()})
