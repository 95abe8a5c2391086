"""Test the steps and the refusals of `k8s/upgrade.sh`, with a `kubectl` that records its calls."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml  # type: ignore[import-untyped]

from shardclock_server.cli.output import print_json
from tests.support.kubectl import FakeKubernetes, secrets_of
from tests.support.manifests import COLOURS, OVERLAYS

BAD_INPUT, NOT_THERE, WRONG_SCHEMA = 2, 3, 4
# A Ray cluster with pods for workers, as `kubectl kustomize` prints it, and a cluster with workers that run an app.
WITH_WORKERS = "spec:\n      image: shardclock:new\n    image: shardclock:new\n  - groupName: workers"
WITH_APP = (
    "spec:\n   - name: SHARDCLOCK_APP\n      image: shardclock-app:new\n    image: shardclock:new\n"
    "  - groupName: workers"
)


@pytest.fixture
def place(tmp_path: Path) -> FakeKubernetes:
    """Make a fake Kubernetes with every secret and without a Ray cluster."""
    return FakeKubernetes.made_in(tmp_path)


def test_the_first_installation_needs_no_switch(place: FakeKubernetes) -> None:
    done = place.upgrade("prod", "blue")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1].startswith("upgrade: done: shardclock-blue serves")
    assert place.asked() == [
        "create namespace shardclock --save-config",
        "--namespace shardclock delete job shardclock-migrate --ignore-not-found --wait",
        "apply --kustomize overlays/prod",
        "--namespace shardclock wait job/shardclock-migrate --for=condition=complete --timeout=20s",
        "--namespace shardclock rollout status deployment/shardclock-metrics --timeout=20s",
        "--namespace shardclock wait pod --selector=ray.io/cluster=shardclock-blue --for=delete --timeout=20s",
        "apply --kustomize overlays/prod/blue",
    ]


@pytest.mark.parametrize(("new", "old"), [COLOURS, COLOURS[::-1]])
def test_an_upgrade_switches_when_the_new_cluster_is_warm_and_then_removes_the_old_cluster(
    place: FakeKubernetes, new: str, old: str
) -> None:
    place.becomes(clusters=[f"shardclock-{old}"], leader=f"shardclock-{old}")
    done = place.upgrade("prod", new)
    assert done.returncode == 0, done.stderr
    assert place.asked()[-5:] == [
        f"apply --kustomize overlays/prod/{new}",
        f"--namespace shardclock exec deployment/shardclock-metrics -- shardclock switch shardclock-{new} --wait 120",
        # The network policies stay until the last pod has ended, because the pod may send requests until then.
        f"--namespace shardclock delete raycluster shardclock-{old} --ignore-not-found --wait --timeout=20s",
        f"--namespace shardclock wait pod --selector=ray.io/cluster=shardclock-{old} --for=delete --timeout=20s",
        f"delete --kustomize overlays/prod/{old} --ignore-not-found --wait --timeout=20s",
    ]
    assert place.state["clusters"] == [f"shardclock-{new}"]


def test_an_interrupted_upgrade_continues(place: FakeKubernetes) -> None:
    place.becomes(clusters=["shardclock-blue", "shardclock-green"], leader="shardclock-green")
    assert place.upgrade("prod", "green").returncode == 0
    assert place.state["clusters"] == ["shardclock-green"]

    # Given an upgrade that stopped after the deletion of the old Ray cluster, and before the deletion of its policies
    place.becomes(policies=["blue"])
    assert place.upgrade("prod", "green").returncode == 0
    assert place.state["policies"] == []


def test_pods_that_do_not_end_are_reported_and_keep_their_policies(place: FakeKubernetes) -> None:
    place.becomes(
        clusters=["shardclock-blue", "shardclock-green"], leader="shardclock-green", policies=["blue"], pods="stay"
    )

    done = place.upgrade("prod", "green")

    assert done.returncode == NOT_THERE
    assert "the new cluster serves, but pods of shardclock-blue are not gone within 20 s" in done.stderr
    assert place.state["policies"] == ["blue"]

    place.becomes(pods="go")
    assert place.upgrade("prod", "green").returncode == 0
    assert place.state["policies"] == []


def test_a_colour_starts_only_after_the_end_of_earlier_pods_of_its_name(place: FakeKubernetes) -> None:
    # Given a green cluster that was just deleted, with a head that has not ended yet
    place.becomes(clusters=["shardclock-blue"], leader="shardclock-blue", pods="stay")
    done = place.upgrade("prod", "green")
    assert done.returncode == NOT_THERE
    assert "pods of an earlier shardclock-green are not gone within 20 s" in done.stderr
    assert place.state["clusters"] == ["shardclock-blue"]

    place.becomes(pods="go")
    assert place.upgrade("prod", "green").returncode == 0


@pytest.mark.parametrize(
    ("head", "reason"),
    [
        ("head-1/true/2026-11-30T00:00:00Z", "not within 1 s"),
        ("head-1/false/", "not within 1 s"),
        (" ", "not within 1 s"),
        ("head-1/true/2026-11-30T00:00:00Z\nhead-2/true/", "another head runs in shardclock-green"),
    ],
    ids=["ends", "is not ready", "is gone", "is another one"],
)
def test_the_old_cluster_is_kept_if_the_head_of_the_new_cluster_ends(
    place: FakeKubernetes, head: str, reason: str
) -> None:
    place.becomes(clusters=["shardclock-blue"], leader="shardclock-blue", head_after=head)
    done = place.upgrade("prod", "green", WAIT_S="1")
    assert done.returncode == NOT_THERE
    assert reason in done.stderr
    assert "nothing was taken down" in done.stderr
    assert place.state["clusters"] == ["shardclock-blue", "shardclock-green"]

    place.becomes(head="head-2/true/", head_after="")
    assert place.upgrade("prod", "green").returncode == 0
    assert place.state["clusters"] == ["shardclock-green"]


def test_a_repeated_apply_keeps_the_number_of_pods_of_the_autoscaler(place: FakeKubernetes) -> None:
    groups = "  workerGroupSpecs:\n  - groupName: shards\n    maxReplicas: 12\n    minReplicas: 3"
    autoscaled = f"spec:\n  enableInTreeAutoscaling: true\n{groups}"
    green = {"clusters": ["shardclock-green"], "leader": "shardclock-green", "image": "", "replicas": "7"}
    place.becomes(**green, manifests=autoscaled)
    assert place.upgrade("prod", "green").returncode == 0
    applied = yaml.safe_load(place.state["applied"])
    assert applied["spec"]["workerGroupSpecs"] == [
        {"groupName": "shards", "replicas": 7, "maxReplicas": 12, "minReplicas": 3}
    ]

    # Without an autoscaler, the number in the manifests is used
    place.becomes(manifests=f"spec:\n{groups}", applied="")
    assert place.upgrade("prod", "green").returncode == 0
    assert place.state["applied"] == ""


def test_a_failed_poll_prints_its_error_once(place: FakeKubernetes) -> None:
    place.becomes(exec="fails")
    done = place.upgrade("prod", "blue", WAIT_S="1")
    assert done.returncode == NOT_THERE
    assert (done.stdout + done.stderr).count("unable to upgrade connection") == 1


def test_gateways_that_do_not_start_end_the_upgrade_before_ray_changes(place: FakeKubernetes) -> None:
    place.becomes(gateway="crashes")
    done = place.upgrade("prod", "green")
    assert done.returncode == NOT_THERE
    assert "shardclock-gateway was not rolled out in 20 s" in done.stderr
    assert "apply --kustomize overlays/prod/green" not in place.asked()

    place.becomes(gateway="serves")
    assert place.upgrade("prod", "green").returncode == 0


def test_a_serving_colour_with_another_image_is_unchanged_and_the_message_names_the_other_colour(
    place: FakeKubernetes,
) -> None:
    place.becomes(clusters=["shardclock-blue"], leader="shardclock-blue", image="shardclock:old", namespace={})
    done = place.upgrade("prod", "blue")
    assert done.returncode == BAD_INPUT
    assert "done" not in done.stdout
    (line,) = done.stderr.splitlines()
    assert "with the image shardclock:old, and no pod of it would change to shardclock:new" in line
    assert "prod green`" in line
    assert place.asked() == []


def test_a_stand_by_with_another_image_must_be_deleted_first(place: FakeKubernetes) -> None:
    both = ["shardclock-blue", "shardclock-green"]
    place.becomes(clusters=both, leader="shardclock-green", image="shardclock:old", namespace={})
    done = place.upgrade("prod", "blue")
    assert done.returncode == BAD_INPUT
    assert "if shardclock-green serves, `kubectl delete -k k8s/overlays/prod/blue`, then say this again" in done.stderr
    assert place.asked() == []


def test_nothing_is_removed_before_the_new_cluster_is_warm(place: FakeKubernetes) -> None:
    # Given a new cluster with shards that never start
    place.becomes(clusters=["shardclock-blue"], leader="shardclock-blue", cold=["shardclock-green"])
    done = place.upgrade("prod", "green", WAIT_S="1")
    assert done.returncode == NOT_THERE
    assert "not within 1 s" in done.stderr
    assert "nothing was taken down" in done.stderr
    # Then the old cluster still leads
    assert place.state["leader"] == "shardclock-blue"
    assert not [line for line in place.asked() if "switch" in line or line.startswith("delete")]


def test_with_an_app_the_upgrade_also_waits_for_the_new_workers(place: FakeKubernetes) -> None:
    place.becomes(clusters=["shardclock-blue"], leader="shardclock-blue", manifests=WITH_APP, workers=1)
    done = place.upgrade("prod", "green", WAIT_S="1")
    assert done.returncode == NOT_THERE
    assert (
        done.stdout.splitlines()[-1]
        == "upgrade: its coordinator and its shards, workers and engines, standing by or serving"
    )
    assert place.state["leader"] == "shardclock-blue"

    place.becomes(workers=2, image="shardclock:new shardclock-app:new")
    assert place.upgrade("prod", "green").returncode == 0
    assert place.state["clusters"] == ["shardclock-green"]


def test_without_an_app_the_upgrade_waits_for_workers_if_there_is_an_endpoint(place: FakeKubernetes) -> None:
    place.becomes(clusters=["shardclock-blue"], leader="shardclock-blue", manifests=WITH_WORKERS)
    assert place.upgrade("prod", "green", WAIT_S="1").returncode == NOT_THERE

    place.becomes(wanted=0)
    assert place.upgrade("prod", "green").returncode == 0
    assert place.state["clusters"] == ["shardclock-green"]


def test_the_upgrade_waits_for_the_workers_of_an_app_before_its_handlers_are_declared(place: FakeKubernetes) -> None:
    place.becomes(manifests=WITH_APP, wanted=0)
    assert place.upgrade("prod", "green", WAIT_S="1").returncode == NOT_THERE


def test_wanted_workers_without_a_pod_are_reported(place: FakeKubernetes) -> None:
    told = place.upgrade("prod", "blue").stdout.splitlines()[-2]
    assert told.startswith(
        "upgrade: deliveries wait: 2 workers are wanted for handlers or endpoints, and there is no pod"
    )

    place.becomes(wanted=0)
    assert "deliveries wait" not in place.upgrade("prod", "blue").stdout


@pytest.mark.parametrize(
    ("engines", "leads"),
    [({"shardclock-blue": "serve"}, "blue"), ({"shardclock-blue": "serve", "shardclock-green": "wait"}, "green")],
    ids=["none comes up", "none gets slots"],
)
def test_the_old_cluster_is_kept_until_the_new_engines_serve(
    place: FakeKubernetes, engines: dict[str, str], leads: str
) -> None:
    # Given a deployed process; its instances do not advance without engines
    blue = {"clusters": ["shardclock-blue"], "leader": "shardclock-blue", "engines_wanted": 2}
    place.becomes(**blue, engines=engines)
    done = place.upgrade("prod", "green", WAIT_S="1")
    assert (done.returncode, place.state["leader"]) == (NOT_THERE, f"shardclock-{leads}")
    assert place.state["clusters"] == ["shardclock-blue", "shardclock-green"]

    place.becomes(engines={"shardclock-green": "serve"})
    assert place.upgrade("prod", "green").returncode == 0
    assert place.state["clusters"] == ["shardclock-green"]


def test_workers_do_not_count_as_shards(place: FakeKubernetes) -> None:
    place.becomes(clusters=["shardclock-blue"], leader="shardclock-blue", cold=["shardclock-green"], workers=2)
    assert place.upgrade("prod", "green", WAIT_S="1").returncode == NOT_THERE
    assert place.state["leader"] == "shardclock-blue"


def test_another_image_of_the_app_is_another_image(place: FakeKubernetes) -> None:
    blue = {"clusters": ["shardclock-blue"], "leader": "shardclock-blue", "namespace": {}, "manifests": WITH_APP}
    place.becomes(**blue, image="shardclock:new shardclock-app:old shardclock:new", workers=2)
    done = place.upgrade("prod", "blue")
    assert done.returncode == BAD_INPUT
    assert "shardclock-app:old" in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert place.asked() == []

    place.becomes(image="shardclock:new shardclock-app:new shardclock:new")
    assert place.upgrade("prod", "blue").returncode == 0


def test_a_failed_switch_changes_neither_cluster(place: FakeKubernetes) -> None:
    place.becomes(clusters=["shardclock-blue"], leader="shardclock-blue", switch="fails")
    done = place.upgrade("prod", "green")
    assert done.returncode == 1
    assert "nothing was switched" in done.stderr
    assert place.state["clusters"] == ["shardclock-blue", "shardclock-green"]


def test_a_failed_migration_ends_the_upgrade_before_ray_changes(place: FakeKubernetes) -> None:
    place.becomes(migration="fails")
    done = place.upgrade("prod", "green")
    assert done.returncode == WRONG_SCHEMA
    assert "logs job/shardclock-migrate" in done.stderr
    assert "apply --kustomize overlays/prod/green" not in place.asked()


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_a_missing_secret_is_named_before_other_objects_are_made(place: FakeKubernetes, overlay: str) -> None:
    for line in secrets_of(overlay):
        every = place.state["secrets"]
        place.becomes(secrets=[secret for secret in every if secret != line.split()])
        done = place.upgrade(overlay, "blue")
        name, key = line.split()
        assert done.returncode == BAD_INPUT
        assert done.stderr.startswith(f"upgrade: the secret {name} with the key {key} is missing in namespace")
        assert len(done.stderr.splitlines()) == 1
        namespace = {"dev": "shardclock-dev", "prod": "shardclock"}[overlay]
        assert place.asked() == [f"create namespace {namespace} --save-config"]
        place.becomes(secrets=every)


def test_an_existing_namespace_keeps_its_labels(place: FakeKubernetes) -> None:
    labels = {"pod-security.kubernetes.io/enforce": "restricted", "team": "payments"}
    place.becomes(namespace=labels)
    assert place.upgrade("prod", "blue").returncode == 0
    assert place.state["namespace"] == labels


@pytest.mark.parametrize("kind", ["namespace", "secret", "raycluster"])
def test_a_failed_query_does_not_count_as_a_missing_object(place: FakeKubernetes, kind: str) -> None:
    # Given an API server that does not answer, and an old cluster that leads
    place.becomes(clusters=["shardclock-blue"], leader="shardclock-blue", namespace={}, broken=kind)
    done = place.upgrade("prod", "green")

    # Then the script creates no object because of the failed query, and reports no success
    assert done.returncode == NOT_THERE
    assert "Unable to connect to the server" in done.stderr
    assert done.stderr.splitlines()[-1].startswith(f"upgrade: whether there is a {kind} ")
    assert not [line for line in place.asked() if line.startswith(("create", "delete")) or "switch" in line]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "say which overlay and which colour"),
        (["prod"], "say which overlay and which colour"),
        (["prod", "blue", "now"], "say which overlay and which colour"),
        (["staging", "blue"], "there is no overlay 'staging': choose dev or prod"),
        (["../base", "blue"], "'../base' is no overlay's name: choose dev or prod"),
        (["", "blue"], "'' is no overlay's name"),
        (["prod", "red"], "there is no colour 'red': choose blue or green"),
        (["prod", ""], "there is no colour ''"),
    ],
)
def test_unknown_arguments_are_refused_in_one_line(place: FakeKubernetes, arguments: list[str], words: str) -> None:
    done = place.upgrade(*arguments)
    assert (done.returncode, done.stdout) == (BAD_INPUT, "")
    assert len(done.stderr.splitlines()) == 1
    assert words in done.stderr
    assert place.asked() == []


def test_without_kubectl_the_script_reports_this(place: FakeKubernetes) -> None:
    (place.path / "bin" / "kubectl").unlink()
    for name in ("bash", "dirname", "env", "sed"):
        (place.path / "bin" / name).symlink_to(f"/usr/bin/{name}")
    done = place.upgrade("prod", "blue", PATH=str(place.path / "bin"))
    assert (done.returncode, done.stderr) == (
        NOT_THERE,
        "upgrade: kubectl is not on PATH; install it, then say this again\n",
    )


def test_the_script_s_patterns_match_the_output_of_status(capsys: pytest.CaptureFixture[str]) -> None:
    # The script searches for these with grep: a key, a colon, perhaps a space.
    print_json({"shards_wanted": 2, "shards": [{"cluster_id": "shardclock-blue", "shard": 0}]})
    printed = capsys.readouterr().out
    for field in ('"shards_wanted": 2', '"cluster_id": "shardclock-blue"', '"shard": 0'):
        assert field in printed
