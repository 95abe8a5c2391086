# ruff: noqa: INP001 - a separate program, in no package
"""Print the software bill of materials (SBOM) of this environment in CycloneDX, without the tools for development.

`cyclonedx-py` describes the whole environment in which it runs. This program removes the packages that
`leftovers.py` lists from the output of `cyclonedx-py`. The arguments are the extras that the image includes.
"""

import json
import re
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
# The validation of `cyclonedx-py` takes 15 s, and would run before our changes: tests/k8s/test_image.py validates the
# result.
TOOL = (sys.executable, "-m", "cyclonedx_py", "environment", "--no-validate", "--output-reproducible", "--pyproject")
LAST_REMOVED = "pip"


def main() -> None:
    """Print one JSON object."""
    left = {*printed(sys.executable, str(HERE / "leftovers.py"), *sys.argv[1:]).split(), LAST_REMOVED}
    bom = json.loads(printed(*TOOL, str(HERE.parents[1] / "pyproject.toml"), sys.executable))
    bom["components"] = [it for it in bom["components"] if re.sub(r"[-_.]+", "-", it["name"]).lower() not in left]
    for component in bom["components"]:
        # The folder of our sources, which exists only where the image is built.
        found = component.pop("externalReferences", [])
        if kept := [it for it in found if not it["url"].startswith("file:")]:
            component["externalReferences"] = kept
    refs = {it["bom-ref"] for it in (*bom["components"], bom["metadata"]["component"])}
    bom["dependencies"] = [it for it in bom["dependencies"] if it["ref"] in refs]
    for dependency in bom["dependencies"]:
        if "dependsOn" in dependency:
            dependency["dependsOn"] = [ref for ref in dependency["dependsOn"] if ref in refs]
    sys.stdout.write(json.dumps(bom, indent=2) + "\n")


def printed(*command: str) -> str:
    """Run a command and return its output."""
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout


if __name__ == "__main__":
    main()
