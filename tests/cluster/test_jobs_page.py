"""On a real cluster, the commands of the pages about jobs work in the order of the pages."""

from __future__ import annotations

import asyncio
import re
import shlex
from collections.abc import Iterator

import pytest

from shardclock_server.sql.cluster.holders import WORKER
from shardclock_server.sql.jobs.jobs import Job
from tests.support import ROOT
from tests.support.cli_asserts import BAD_INPUT, DONE, NOT_DONE
from tests.support.cluster_process import ClusterProcess
from tests.support.doc_blocks import CodeBlock, blocks
from tests.support.factories import sql
from tests.support.job_runs import is_whole, job_of, runs_of
from tests.support.program import run, until

pytestmark = [pytest.mark.ray, pytest.mark.exhaustive]

PAGES = ("docs/jobs.md", "docs/job-files.md")
PAGE = [block for page in PAGES for block in blocks() if block.where.startswith(page)]


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterProcess]:
    place = tmp_path_factory.mktemp("page")
    (module,) = [block.text for block in PAGE if block.kind == "python"]
    (place / "recurring.py").write_text(module)
    (file,) = re.findall(
        r"^```json\n(.*?)^```$", (ROOT / "docs" / "job-files.md").read_text(), re.MULTILINE | re.DOTALL
    )
    (place / "jobs.ndjson").write_text(file)
    cluster = ClusterProcess(place, cwd=place, SHARDCLOCK_APP="recurring")
    try:
        cluster.until_running()
        until(lambda: len(cluster.keepers(WORKER)) == 2, "two workers")
        yield cluster
    finally:
        cluster.end()


def job(up: ClusterProcess, name: str) -> Job:
    return asyncio.run(job_of(up.dsn, name))


def is_idle(up: ClusterProcess) -> bool:
    text = """
        select not exists (select from shardclock.deliveries where target like 'job:%')
            and not exists (select from shardclock.timers where target like 'job:%' and due_date <= now())
    """
    return bool(sql(up.dsn, text)[0][0])


def type_(up: ClusterProcess, block: CodeBlock) -> None:
    """Run a block's commands, or send its SQL to `shardclock psql`."""
    if block.kind == "sql":
        typed = run("psql", "-c", block.text, environment=up.environment)
        assert typed.code == DONE, typed.err
    if block.kind != "console":
        return
    for part in block.text.removeprefix("$ ").split("\n$ "):
        line, *shown = part.splitlines()
        if line.startswith(("pip", "shardclock up")):
            continue
        # A start that becomes due during a run is skipped.
        until(lambda: is_idle(up), "the run before to end")
        typed = run(*shlex.split(line)[1:], environment=up.environment, cwd=up.place)
        if shown:
            assert (typed.code, typed.err.splitlines()) == (BAD_INPUT, shown), "the page shows this refusal"
            continue
        # `cancel` may find no run.
        assert typed.code in ((DONE, NOT_DONE) if " cancel " in line else (DONE,)), f"{line}: {typed.out}{typed.err}"


def test_the_pages_about_jobs_work(up: ClusterProcess) -> None:
    assert "2 jobs" in up.said
    until(lambda: job(up, "refresh").successes == 1, "the first run of a new job")

    for block in PAGE:
        type_(up, block)

    jobs = {it["name"]: it for it in run("jobs", "list", "--json", environment=up.environment).json["jobs"]}
    assert sorted(jobs) == ["nightly", "refresh", "refresh-bern", "tidy"]
    assert (jobs["refresh-bern"]["state"], jobs["tidy"]["withdrawn_at"] is not None) == ("DISABLED", True)
    assert job(up, "refresh").config == '{"city": "Bonn", "days": 5}'
    until(lambda: is_idle(up), "the last run to end")
    assert job(up, "nightly").last_outcome == "SUCCEEDED"
    runs = asyncio.run(runs_of(up.dsn, "refresh"))
    assert {run.result for run in runs if run.outcome == "SUCCEEDED"} >= {'{"days": 3}'}
    logs = [run.log or "" for run in runs]
    for city in ("Berlin", "Rome", "Oslo"):
        assert any(f"forecast of {city}, day 3" in log for log in logs), city
    (attempt,) = [run.log for run in asyncio.run(runs_of(up.dsn, "nightly"))]
    assert attempt is not None
    assert attempt.startswith("attempt 1 of the start that was due at ")
    assert asyncio.run(is_whole(up.dsn)) == []


def test_a_job_that_the_pages_commands_disable_starts_no_run_until_it_is_enabled_again(up: ClusterProcess) -> None:
    assert run("jobs", "disable", "refresh", environment=up.environment).code == DONE
    refused = run("jobs", "run", "refresh", "--wait", environment=up.environment)
    assert "was disabled" in refused.err

    assert run("jobs", "enable", "refresh", environment=up.environment).code == DONE
    assert run("jobs", "run", "refresh", "--wait", "--within", "60", environment=up.environment).code == DONE
