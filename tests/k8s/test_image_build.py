"""Build the image from the Dockerfile, and run its programs, without Docker and without a registry of images.

The base is a root file system of Debian's packages. `buildah` runs the steps in a chroot; it needs no daemon.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support import ROOT

pytestmark = pytest.mark.exhaustive

PROGRAMS = ("buildah", "mmdebstrap", "unshare", "chroot")
# The Dockerfile uses Python 3.11, too.
SUITE, PACKAGES = "bookworm", "python3,python3-venv,python-is-python3,ca-certificates"
BASE, IMAGE = "localhost/base", "localhost/shardclock"
FETCH_S, BUILD_S, RUN_S = 600, 1800, 120
# Run a command as the image's user, in new namespaces, with a read-only root and an empty /tmp.
ENTER = """
set -e
root=$1; shift
mount --bind "$root" "$root"
mount -o remount,ro,bind "$root"
mount -t tmpfs -o mode=1777 tmpfs "$root/tmp"
mount --bind /dev "$root/dev"
mount -t proc proc "$root/proc"
exec chroot --userspec 10001:10001 "$root" /usr/bin/env --ignore-environment --chdir=/tmp "$@"
"""


@dataclass(frozen=True)
class Image:
    """The built image: its configuration, and the folder with its files."""

    config: dict[str, object]
    root: Path

    def run(self, *words: str) -> str:
        """Run a command with the environment of the image; it must succeed."""
        variables = self.config["Env"]
        assert isinstance(variables, list)
        command = ["unshare", "--mount", "--pid", "--fork", "sh", "-c", ENTER, "sh", str(self.root), *variables, *words]
        done = subprocess.run(command, capture_output=True, text=True, timeout=RUN_S, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout


@pytest.fixture(scope="module")
def image() -> Iterator[Image]:
    """Build the image; skip if a program, root's rights, or the packages of Debian or of the lock file are missing."""
    if missing := [name for name in PROGRAMS if shutil.which(name) is None]:
        pytest.skip(f"no {', '.join(missing)} here; Debian's packages buildah and mmdebstrap have them")
    if os.geteuid() != 0:
        pytest.skip("only root can build a root file system here")
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        fetch("mmdebstrap", "--quiet", "--variant=minbase", f"--include={PACKAGES}", SUITE, str(place / "base.tar"))
        lock = ["--require-hashes", "--no-deps", "--only-binary", ":all:", "-r", str(ROOT / "requirements.lock")]
        pip = [sys.executable, "-m", "pip", "download", "--quiet", "--python-version", "3.11"]
        fetch(*pip, *lock, "--dest", str(place / "wheels"))
        (place / "pip.conf").write_text("[global]\nno-index = true\nfind-links = /wheels\n")
        yield from built(place)


def fetch(*command: str) -> None:
    """Fetch packages; skip the tests if a registry can't be reached."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=FETCH_S, check=False)
    if done.returncode != 0:
        pytest.skip(f"{command[0]} has fetched no packages: {done.stderr.strip().splitlines()[-1:]}")


def built(place: Path) -> Iterator[Image]:
    """Build the base and the image in a store below a folder, and mount the image's files."""
    store = f'[storage]\ndriver = "vfs"\nrunroot = "{place}/run"\ngraphroot = "{place}/store"\n'
    (place / "storage.conf").write_text(store)
    environment = os.environ | {"CONTAINERS_STORAGE_CONF": f"{place}/storage.conf", "BUILDAH_ISOLATION": "chroot"}

    def buildah(*words: str) -> str:
        command = ["buildah", *words]
        done = subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=BUILD_S, check=False, cwd=place
        )
        assert done.returncode == 0, done.stderr[-4000:]
        return done.stdout.strip()

    (place / "Base").write_text("FROM scratch\nADD base.tar /\n")
    buildah("build", "--quiet", "--file", "Base", "--tag", BASE, ".")
    wheels = [f"--volume={place}/wheels:/wheels:ro", f"--volume={place}/pip.conf:/etc/pip.conf:ro"]
    buildah("build", "--quiet", "--format=docker", "--layers=false", *wheels, f"--build-arg=PYTHON={BASE}",
            "--build-arg=REVISION=abc", "--tag", IMAGE, str(ROOT))  # fmt: skip
    container = buildah("from", "--pull-never", IMAGE)
    try:
        found = json.loads(buildah("inspect", "--type=image", IMAGE))
        yield Image(found["Docker"]["config"], Path(buildah("mount", container)))
    finally:
        buildah("rm", container)


def test_the_built_image_has_the_configuration_of_the_dockerfile(image: Image) -> None:
    assert (image.config["User"], image.config["WorkingDir"]) == ("10001:10001", "/tmp")
    labels, health = image.config["Labels"], image.config["Healthcheck"]
    assert isinstance(labels, dict)
    assert labels["org.opencontainers.image.revision"] == "abc"
    assert isinstance(health, dict)
    assert health["Test"][:3] == ["CMD", "python", "-c"]


def test_the_programs_of_the_image_start_as_its_user_on_a_read_only_root(image: Image) -> None:
    assert image.run("id", "-u", "-n").strip() == "shardclock"
    assert "Read-only file system" in image.run("sh", "-c", "touch /there 2>&1 || true")
    assert image.run("shardclock", "--version").startswith("shardclock ")
    assert "version" in image.run("python", "-m", "ray.scripts.scripts", "--version")


def test_a_cluster_in_the_built_image_becomes_healthy_and_ends(image: Image) -> None:
    health = image.config["Healthcheck"]
    assert isinstance(health, dict)
    (image.root / "opt" / "health.py").write_text(health["Test"][-1])
    script = """
        export SHARDCLOCK_METRICS_PORT=19840 SHARDCLOCK_GATEWAY_PORT=0 SHARDCLOCK_DATA_DIR=/tmp/data
        shardclock up --local > /tmp/log 2>&1 &
        cluster=$!
        until python /opt/health.py 2> /dev/null || ! kill -0 $cluster; do :; done
        kill $cluster && wait $cluster && echo "ended well" || cat /tmp/log
    """
    assert image.run("sh", "-c", script).strip() == "ended well"


def test_the_bill_of_materials_of_the_image_lists_the_packages_in_the_image(image: Image) -> None:
    (packages,) = (image.root / "opt/shardclock/lib").glob("python3.*/site-packages")
    installed = {found.name.partition("-")[0].lower() for found in packages.glob("*.dist-info")}
    listed = json.loads((image.root / "opt/shardclock/sbom.cdx.json").read_text())["components"]
    assert {it["name"].replace("-", "_").lower() for it in listed} == installed - {"shardclock"}
