"""Test that an invalid job is refused at its declaration, with the value, the rule and the remedy."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest
from pydantic import BaseModel

import shardclock
from shardclock import InvalidHandler, Job, JobPolicy, Run, Timer, find_declared, on_timer
from shardclock.jobs import declared_jobs

Declare = Callable[..., Job]
APP = """
import shardclock

@shardclock.job(every="PT15M", config={"city": "Berlin"})
async def refresh(run: shardclock.Run) -> dict:
    return {}

@shardclock.job("nightly", cron="0 3 * * *", zone="Europe/Berlin", num_gpus=1)
def train(run): ...

@shardclock.on_timer("order.expired")
async def expire(timer): ...
"""

DEEP: list[Any] = []
for _ in range(100):
    DEEP = [DEEP]


class Settings(BaseModel):
    region: str
    depth: int = 3


class Defaults(BaseModel):
    depth: int = 3


def refresh(run: Run) -> None: ...


def refresh_too(run: Run) -> None: ...


def with_settings(run: Run[Settings]) -> None: ...


def with_defaults(run: Run[Defaults]) -> None: ...


def test_a_declared_job_function_is_unchanged_and_its_rule_and_policy_are_in_seconds() -> None:
    given_back = shardclock.job(every="PT15M", max_runtime=timedelta(minutes=5), max_retries=5, num_gpus=0.5)(refresh)

    assert given_back is refresh
    (job,) = [it for it in declared_jobs() if it.function is refresh]
    assert (job.name, job.reference, job.every_s, job.schedule) == ("refresh", f"{__name__}:refresh", 900.0, None)
    assert (job.overlap, job.missed, job.priority, job.zone, job.is_async) == ("skip", "fire_once", 2, "UTC", False)
    assert job.policy == JobPolicy(
        max_runtime_s=300,
        grace_s=10,
        max_retries=5,
        retry_period_s=30,
        retry_max_s=3600,
        num_cpus=None,
        num_gpus=0.5,
        memory_mib=None,
    )


def test_a_cron_or_repeat_rule_is_kept_as_written(declare_job: Declare) -> None:
    assert declare_job(refresh, cron="0 3 * * *", zone="Europe/Berlin").schedule == "0 3 * * *"
    assert declare_job(refresh, repeat="R/PT1H").schedule == "R/PT1H"
    on_request = declare_job(refresh)
    assert (on_request.every_s, on_request.schedule) == (None, None)


@pytest.mark.parametrize(
    ("said", "refusal"),
    [
        ({"every": "PT1M", "cron": "0 3 * * *"}, "has one of every, cron and repeat, and this one has every and cron"),
        ({"every": "P1M"}, "years or months"),
        ({"every": "PT0S"}, "must be a duration from PT0.1S"),
        ({"cron": ""}, "cron '' is refused: it must be a text of 1 to 200 characters"),
        ({"repeat": 7}, "repeat 7 is refused"),
        ({"zone": "a\nb"}, "zone "),
        ({"every": "PT1H", "zone": "Europe/Berlin"}, "zone 'Europe/Berlin' is refused: it belongs to cron and repeat"),
        ({"missed": "all"}, "missed 'all' is refused: it must be one of fire_once, fire_all, skip"),
        ({"every": "PT1H", "missed": "skip"}, "missed 'skip' is refused: it belongs to cron and repeat"),
        ({"overlap": "allow"}, "overlap 'allow' is refused: it must be one of skip, queue, replace"),
        ({"priority": 5}, "priority 5 is refused"),
        ({"max_retries": -1}, "max_retries -1 is refused"),
        ({"max_runtime": "PT0S"}, "max_runtime 'PT0S' is refused"),
        ({"retry_period": "PT2H"}, "retry_period (7200 s) is longer than retry_max (3600 s)"),
        ({"num_gpus": "two"}, "num_gpus 'two' is refused"),
        ({"num_gpus": 1.5}, "num_gpus 1.5 is refused: it must be a fraction below 1, or a whole number"),
        ({"name": "Daily Report"}, "its name must be 1 to 100 characters of a-z, 0-9"),
        ({"config": {1, 2}.pop}, "has no form in JSON"),
        ({"config": "x" * 70_000}, "more than 65,536 bytes"),
        ({"config": {"a": "\0"}}, r"can't be stored: config.a '\x00' contains a NUL character"),
        ({"config": {"\ud800": 1}}, r"can't be stored: config: the name '\ud800' contains half of a surrogate pair"),
        ({"config": DEEP}, "config is nested deeper than 100 levels"),
    ],
)
def test_an_invalid_job_is_refused_in_one_sentence(declare_job: Declare, said: dict[str, Any], refusal: str) -> None:
    with pytest.raises(InvalidHandler) as refused:
        declare_job(refresh, **said)

    assert refusal in str(refused.value)
    assert f"{__name__}:refresh" in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_decorator_without_parentheses_and_a_taken_name_are_refused(declare_job: Declare) -> None:
    with pytest.raises(InvalidHandler, match=r'without parentheses above .*; write @job\(\) or @job\(every="PT15M"\)$'):
        shardclock.job(refresh)  # type: ignore[arg-type]
    declare_job(refresh, name="one")
    with pytest.raises(InvalidHandler, match=r"job 'one' is taken: .*:refresh has it, so .*:refresh_too can't"):
        declare_job(refresh_too, name="one")


@pytest.mark.parametrize(
    ("option", "refusal"),
    [
        ("evry", "job has no option 'evry'; is every meant?"),
        ("xyz", "job has no option 'xyz'; its options are name, every, cron, repeat, zone, "),
    ],
)
def test_an_unknown_option_of_a_job_is_refused_with_the_nearest_name_or_all_names(option: str, refusal: str) -> None:
    with pytest.raises(TypeError, match=f"^{re.escape(refusal)}"):
        shardclock.job(**{option: "PT1H"})  # type: ignore[arg-type]


def test_a_function_without_a_run_parameter_is_refused(declare_job: Declare) -> None:
    def takes_a_timer(timer: Timer) -> None: ...

    def takes_nothing() -> None: ...

    def makes_values(run: Run) -> Iterator[int]:
        yield 1

    with pytest.raises(InvalidHandler, match=r"it is called with a run; annotate it as shardclock.Run"):
        declare_job(takes_a_timer)
    with pytest.raises(InvalidHandler, match="one positional argument"):
        declare_job(takes_nothing)
    with pytest.raises(InvalidHandler, match="is a generator"):
        declare_job(makes_values)
    with pytest.raises(InvalidHandler, match="can't be found by another process"):
        shardclock.job()(lambda run: run)


def test_a_config_is_checked_against_the_functions_type(declare_job: Declare) -> None:
    assert declare_job(with_settings, config={"region": "eu"}).config == '{"region": "eu"}'
    assert declare_job(with_settings, config=Settings(region="eu")).config == '{"region": "eu", "depth": 3}'
    assert declare_job(with_defaults).config == "{}", "all its fields have a default"
    with pytest.raises(InvalidHandler, match="has a config that does not fit Settings: region: Field required"):
        declare_job(with_settings)
    with pytest.raises(InvalidHandler, match="has a config that does not fit Settings: depth: "):
        declare_job(with_settings, config={"region": "eu", "depth": "deep"})


def test_a_handler_can_not_have_a_jobs_target() -> None:
    with pytest.raises(InvalidHandler, match="log, webhook:…, job:… and process:… are built in"):
        on_timer("job:refresh")(refresh)


def test_an_apps_jobs_are_found_and_described_as_json(app: Callable[[str, str], None]) -> None:
    app("of_jobs.py", APP)

    found = find_declared(["of_jobs"])

    assert sorted(found.handlers) == ["order.expired"]
    described = {it["name"]: it for it in shardclock.describe_jobs(found.jobs.values())}
    assert sorted(described) == ["nightly", "refresh"]
    assert described["refresh"]["config"] == '{"city": "Berlin"}'
    assert (described["nightly"]["schedule"], described["nightly"]["zone"]) == ("0 3 * * *", "Europe/Berlin")
    assert described["nightly"]["policy"]["num_gpus"] == 1.0
    single = find_declared(["of_jobs:train"])
    assert (list(single.jobs), single.handlers) == (["nightly"], {})


def test_an_app_may_have_only_jobs_and_a_hidden_job_is_refused(app: Callable[[str, str], None]) -> None:
    app("jobs_alone.py", "import shardclock\n@shardclock.job(every='PT1H')\ndef tidy(run): ...\n")
    assert list(find_declared(["jobs_alone"]).jobs) == ["tidy"]
    assert find_declared(["jobs_alone"]).handlers == {}

    app("hidden_job.py", "import shardclock\n@shardclock.job('gone')\ndef gone(run): ...\ngone = None\n")
    with pytest.raises(InvalidHandler, match=r"job hidden_job:gone is hidden: .* make @job the outermost decorator"):
        find_declared(["hidden_job"])
    assert "hidden_job" in sys.modules
