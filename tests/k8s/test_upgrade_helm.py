"""Test `k8s/upgrade.sh --helm` with a `helm` and a `kubectl` that record their calls."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.helm import add_helm
from tests.support.kubectl import FakeKubernetes

BAD_INPUT, NOT_THERE = 2, 3
BLUE = {"clusters": ["shardclock-blue"], "leader": "shardclock-blue"}
NAMESPACE = "shop"


@pytest.fixture
def place(tmp_path: Path) -> FakeKubernetes:
    """Make a fake Kubernetes with two releases: the shared objects, and a blue cluster."""
    place = FakeKubernetes.made_in(tmp_path)
    place.becomes(**BLUE)
    add_helm(place, blue={"image.tag": "1.0.0"})
    return place


def changes(place: FakeKubernetes) -> list[str]:
    """List the recorded calls of Helm that change a release."""
    return [line for line in place.asked() if line.startswith(("helm upgrade", "helm uninstall")) and "dry" not in line]


def test_an_upgrade_installs_the_other_colour_with_the_values_of_the_present_colour(place: FakeKubernetes) -> None:
    tag, wait = "--set image.tag=1.1.0", "--wait --wait-for-jobs --timeout=20s"
    done = place.upgrade("--helm", NAMESPACE, "green", *tag.split())
    assert done.returncode == 0, done.stderr
    assert changes(place) == [
        f"helm upgrade shardclock charts/shardclock --reset-values --values - {wait} {tag}",
        f"helm upgrade --install shardclock-green charts/shardclock-cluster --values - --set colour=green {tag}",
        "helm uninstall shardclock-blue --ignore-not-found --wait --timeout=20s",
    ]
    assert place.state["releases"] == {
        "shardclock": {"image.tag": "1.1.0"},
        "shardclock-green": {"image.tag": "1.1.0", "colour": "green"},
    }


def test_the_release_of_the_shared_objects_may_have_any_name(place: FakeKubernetes) -> None:
    place.becomes(releases={"timers": {}, "shardclock-blue": {"image.tag": "1.0.0"}})
    missing = place.upgrade("--helm", NAMESPACE, "green")
    wrong = place.upgrade("--helm", NAMESPACE, "green", "--release", "--set")
    done = place.upgrade("--helm", NAMESPACE, "green", "--set", "image.tag=1.1.0", "--release", "timers")
    assert (missing.returncode, wrong.returncode) == (BAD_INPUT, BAD_INPUT)
    assert "there is no release shardclock in namespace shop" in missing.stderr
    assert "or name another one with --release" in missing.stderr
    assert "'--set' is no name of a release" in wrong.stderr
    assert done.returncode == 0, done.stderr
    assert place.state["releases"]["timers"] == {"image.tag": "1.1.0"}


def test_each_chart_may_have_options_of_its_own(place: FakeKubernetes) -> None:
    both, shared, cluster = ("image.tag=1.1.0", "gateway.replicas=3", "shards.replicas=5,autoscaling.enabled=true")
    options = ["--set", both, "--cluster", "--set", cluster, "--shared", "--set", shared]
    done = place.upgrade("--helm", NAMESPACE, "green", *options)
    assert done.returncode == 0, done.stderr
    assert place.state["releases"] == {
        "shardclock": {"image.tag": "1.1.0", "gateway.replicas": "3"},
        "shardclock-green": {
            "image.tag": "1.1.0",
            "colour": "green",
            "shards.replicas": "5",
            "autoscaling.enabled": "true",
        },
    }


def test_without_an_option_no_value_changes(place: FakeKubernetes) -> None:
    done = place.upgrade("--helm", NAMESPACE, "green")
    assert done.returncode == 0, done.stderr
    assert place.state["releases"]["shardclock-green"] == {"image.tag": "1.0.0", "colour": "green"}


def test_a_null_option_has_the_same_result_in_each_run(place: FakeKubernetes) -> None:
    # With --reset-then-reuse-values, the first run would remove the kept value, and the next run the chart's default.
    place.becomes(releases={"shardclock": {"image.tag": "1.0.0"}, "shardclock-blue": {"image.tag": "1.0.0"}})
    for colour in ("green", "green", "blue"):
        done = place.upgrade("--helm", NAMESPACE, colour, "--set", "image.tag=null")
        assert done.returncode == 0, done.stderr
        place.becomes(clusters=[f"shardclock-{colour}"], leader=f"shardclock-{colour}")
        releases = place.state["releases"]
        assert releases["shardclock"] == {"image.tag": "null"}
        assert releases[f"shardclock-{colour}"] == {"image.tag": "null", "colour": colour}


@pytest.mark.parametrize(
    ("options", "chart", "key"),
    [
        (["--set", "gateway.replicas=3"], "shardclock-cluster", "gateway"),
        (["--set", "shards.replicas=5"], "shardclock", "shards"),
        (["--shared", "--set", "shards.replicas=5"], "shardclock", "shards"),
        (["--cluster", "--set", "gateway.replicas=3"], "shardclock-cluster", "gateway"),
    ],
)
def test_a_value_that_a_chart_lacks_is_refused_before_a_change(
    place: FakeKubernetes, options: list[str], chart: str, key: str
) -> None:
    before = place.state
    done = place.upgrade("--helm", NAMESPACE, "green", *options)
    assert done.returncode == BAD_INPUT
    assert f"'{key}' not allowed" in done.stderr
    last = done.stderr.splitlines()[-1]
    assert last.startswith(f"upgrade: the chart {chart} refuses these values: ")
    assert last.endswith("a value of one chart comes after --shared or --cluster")
    assert place.state == before


def test_an_interrupted_end_of_the_old_colour_continues_without_network_policies(place: FakeKubernetes) -> None:
    # Given an upgrade that stopped after the deletion of the old RayCluster, and before the deletion of its release
    place.becomes(clusters=["shardclock-green"], leader="shardclock-green")
    add_helm(place, blue={"image.tag": "1.0.0"}, green={"image.tag": "1.1.0"})
    done = place.upgrade("--helm", NAMESPACE, "green")
    assert done.returncode == 0, done.stderr
    assert changes(place)[-1].startswith("helm uninstall shardclock-blue ")
    assert sorted(place.state["releases"]) == ["shardclock", "shardclock-green"]


def test_the_values_come_from_the_colour_that_has_a_cluster(place: FakeKubernetes) -> None:
    # Given the release of a former green cluster that was never uninstalled
    add_helm(place, blue={"workers.enabled": "true"}, green={"shards.replicas": "1"})
    done = place.upgrade("--helm", NAMESPACE, "green", "--set", "image.tag=1.2.0")
    assert done.returncode == 0, done.stderr
    assert place.state["releases"]["shardclock-green"] == {
        "workers.enabled": "true",
        "colour": "green",
        "image.tag": "1.2.0",
    }


def test_the_first_cluster_needs_no_release_of_another_cluster(place: FakeKubernetes) -> None:
    place.becomes(clusters=[], leader=None)
    add_helm(place)
    done = place.upgrade("--helm", NAMESPACE, "blue", "--cluster", "--set", "shards.replicas=1")
    assert done.returncode == 0, done.stderr
    assert place.state["releases"]["shardclock-blue"] == {"colour": "blue", "shards.replicas": "1"}


def test_a_failed_query_of_the_clusters_ends_the_upgrade_before_a_change(place: FakeKubernetes) -> None:
    place.becomes(broken="raycluster")
    before = place.state
    done = place.upgrade("--helm", NAMESPACE, "green")
    assert done.returncode == NOT_THERE
    assert done.stderr.splitlines()[-1].startswith("upgrade: whether there is a raycluster ")
    assert place.state == before


def test_a_release_whose_helm_was_killed_is_refused_with_the_commands_that_mend_it(place: FakeKubernetes) -> None:
    place.becomes(pending=["shardclock"])
    before = place.state
    done = place.upgrade("--helm", NAMESPACE, "green")
    assert done.returncode == BAD_INPUT
    (line,) = done.stderr.splitlines()
    assert line.startswith("upgrade: the release shardclock is pending")
    assert f"`helm history shardclock --namespace {NAMESPACE}`" in line
    assert f"`helm rollback shardclock REVISION --namespace {NAMESPACE}`" in line
    assert place.state == before
