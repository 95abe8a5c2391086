"""The user's code runs in a separate environment with the client's wheel and another version of pydantic."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from tests.support.distributions import INSTALL_S
from tests.support.factories import sql
from tests.support.local_cluster import local_cluster
from tests.support.program import run, until

pytestmark = pytest.mark.exhaustive
APP = """
import sys
import pydantic
import shardclock

class Order(pydantic.BaseModel):
    order: int

def here():
    names = [name for name, module in sys.modules.items() if module is not None]
    ours = [it for it in names if it.partition(".")[0] in ("shardclock_server", "ray", "asyncpg")]
    return {"python": sys.executable, "pydantic": pydantic.VERSION, "server": ours}

@shardclock.on_timer("expired")
async def expired(timer: shardclock.Timer[Order]):
    return here() | {"order": timer.payload.order}

@shardclock.job(every="PT10M")
def refresh(run):
    return here()
"""
ENDED = "select distinct on (target) target, detail from shardclock.command_log where intent = 'DELIVERED' order by 1"


@pytest.fixture(scope="session")
def shop(wheels: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make an environment with the client's wheel and the newest pydantic before ours; return its Python."""
    place = tmp_path_factory.mktemp("shop") / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(place)], check=True, timeout=INSTALL_S)
    python = place / "bin" / "python"
    install = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet", "--only-binary", ":all:"]
    wanted = [str(wheels["client"]), f"pydantic<{version('pydantic')}"]
    try:
        done = subprocess.run([*install, *wanted], capture_output=True, text=True, timeout=4 * INSTALL_S, check=False)
        why = "" if done.returncode == 0 else done.stderr.strip().splitlines()[-1]
    except subprocess.TimeoutExpired:
        why = "pip does not end"
    if why:
        pytest.skip(f"no environment with another pydantic can be made here: {why}")
    return python


def test_handlers_and_runs_need_only_the_package_of_the_client(shop: Path, place: Path, dsn: str) -> None:
    (place / "shop_jobs.py").write_text(APP)
    given = {"SHARDCLOCK_APP": "shop_jobs", "SHARDCLOCK_PYTHON": str(shop), "SHARDCLOCK_SHARDS": "1"}

    with local_cluster(place, dsn, cwd=place, **given) as up:
        asked = ["schedule", "--in", "PT0S", "--target", "expired", "--payload", '{"order": 7}']
        assert run(*asked, environment=up.environment | {"SHARDCLOCK_DSN": dsn}).code == 0
        until(lambda: {"expired", "job:refresh"} <= _ends(dsn).keys(), "a call and a run")
        ends = _ends(dsn)

    for seen in ends.values():
        assert (seen["python"], seen["server"]) == (str(shop), [])
        assert seen["pydantic"] != version("pydantic")
    assert ends["expired"]["order"] == 7


def _ends(dsn: str) -> dict[str, Any]:
    return {target: json.loads(detail).get("result") for target, detail in sql(dsn, ENDED)}
