"""The statements of the page about tests that move the clock are true."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from tests.support import ROOT
from tests.support.factories import BOUND_S
from tests.support.installed import tell_installed


def test_the_page_s_tests_pass(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "testing.md").read_text(encoding="utf-8")
    app, *parts = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    tests = "\n\n".join(parts)
    (tmp_path / "reminders.py").write_text(app)
    (tmp_path / "test_reminders.py").write_text(tests)
    shutil.copy(ROOT / "examples" / "order.bpmn", tmp_path)
    tell_installed(tmp_path)

    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "test_reminders.py"],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(tmp_path), str(ROOT), str(ROOT / "client")])},
        capture_output=True,
        text=True,
        timeout=4 * BOUND_S,
        check=False,
    )

    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{tests.count('async def test_')} passed" in done.stdout
