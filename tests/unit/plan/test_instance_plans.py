"""Replicas shared out among processes and hosts: what is refused, what it costs."""

from __future__ import annotations

from pathlib import Path

import pytest

from ipu_runtime.plan.plan import Plan
from ipu_runtime.plan.problem import Problem, Severity
from ipu_runtime.plan.request_json import request_from_json, request_to_json
from ipu_runtime.reports.plan_document import plan_document
from workbench.experiment.experiment_loading import load_experiment
from workbench.planning.experiment_plan import plan_experiment, plan_request
from workbench.views.layout import TextStyle, document_text

RACKS = (
    "execution.system=Pod256",
    "ipu.auto_select_ipus=256",
    "data.train_samples=51200",
)
IMAGE_BYTES = 20 * (224 * 224 * 3 * 2 + 4)
"""One micro-batch of resnet50-pod64: halves, and the classes."""


def _plan(preset: str, *changes: str):  # type: ignore[no-untyped-def]
    loaded = load_experiment(preset, changes)
    assert loaded.spec is not None, loaded.problems
    return plan_experiment(loaded.spec)


def _pod(hosts: int, *changes: str):  # type: ignore[no-untyped-def]
    own = (f"execution.instances={max(hosts, 1)}", f"execution.hosts={hosts}")
    return _plan("resnet50-pod64", *own, *changes)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ("execution.instances=3", "4 replicas cannot be shared out among 3 instances"),
        ("execution.hosts=3", "2 instances cannot be spread over 3 hosts"),
    ],
)
def test_what_cannot_be_shared_out_evenly_is_refused(change: str, problem: str) -> None:
    plan = _plan("mnist-popdist", change)
    assert not plan.ok
    (found,) = plan.problems
    assert found.where == change.partition("=")[0]
    assert problem in str(found)


def test_more_hosts_than_machines_are_a_warning() -> None:
    (problem,) = _plan("mnist-popdist", "execution.hosts=2").problems
    assert problem.severity is Severity.WARNING
    assert "2 hosts are more than the machines of 4 IPUs (1)" in str(problem)


def test_plain_keras_is_refused_by_name() -> None:
    loaded = load_experiment("mnist-popdist", ["execution.api=cpu"])
    assert loaded.spec is None
    text = " ".join(map(str, loaded.problems))
    assert "2 processes are not available with execution.api = cpu" in text


@pytest.mark.parametrize("hosts", [1, 2, 4])
def test_a_host_feeds_its_own_replicas(hosts: int) -> None:
    plan = _pod(hosts)
    sent = 64 / hosts * IMAGE_BYTES
    assert plan.feed_us == pytest.approx(sent / 22e3)
    assert plan.ipus_per_instance == 64 // hosts


@pytest.mark.parametrize(
    ("system", "ipus", "hosts"),
    [
        ("M2000", 4, 1),
        ("Pod16", 16, 1),
        ("Pod64", 64, 1),
        ("Pod128", 128, 2),
        ("Pod256", 256, 4),
        ("Bow-Pod256", 256, 4),
        ("Pod256", 128, 2),
        ("Pod256", 16, 1),
        ("C600", 8, 1),
    ],
)
def test_a_system_has_the_hosts_that_it_is_sold_with(
    system: str, ipus: int, hosts: int
) -> None:
    pod = (f"execution.system={system}", f"ipu.auto_select_ipus={ipus}")
    plan = _plan("mnist-ipu", *pod, "data.batch_size=1")
    assert plan.hosts == hosts


def test_more_racks_feed_more_images() -> None:
    pod64, pod256 = _pod(1), _pod(0, *RACKS, "execution.instances=1")
    assert pod256.samples_per_second > 3 * pod64.samples_per_second
    assert pod256.feed_us == pytest.approx(64 * IMAGE_BYTES / 22e3)


def test_a_process_that_cannot_be_on_all_hosts_is_named() -> None:
    (problem,) = _of_instances(_pod(0, *RACKS, "execution.instances=1"))
    assert problem.where == "execution.instances"
    assert problem.severity is Severity.WARNING
    assert "4 hosts, which 1 instance cannot be spread over" in problem.problem
    assert problem.suggestion == 4
    assert _of_instances(_pod(0, *RACKS, "execution.instances=8")) == []


def test_a_feed_that_decides_is_named() -> None:
    plan = _pod(1)
    (problem,) = _of_instances(plan)
    assert problem.where == "execution.hosts"
    assert "the feed decides: 1 host needs 17.5 ms" in problem.problem
    assert "2 hosts" in problem.hint
    assert _of_instances(_pod(2)) == []
    assert _of_instances(_plan("resnet50-pod16")) == []


def _of_instances(plan: Plan) -> list[Problem]:
    """Return what is wrong, but for the sum over replicas of one process."""
    return [item for item in plan.problems if item.where != "train.learning_rate"]


def test_a_hardware_file_need_not_say_hosts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "own.toml"
    file.write_text(
        '[systems]\nMine = { ipu = "bow", ipus = 8, ipus_per_machine = 4 }\n'
    )
    monkeypatch.setenv("IPU_WORKBENCH_HARDWARE", str(file))
    assert _plan("mnist-ipu", "execution.system=Mine").hosts == 1


def test_one_host_is_too_slow_for_a_rack() -> None:
    one, four = _pod(1), _pod(4)
    assert four.step.infeed_us == 0  # It is hidden behind the computation.
    assert one.ipu_step_us == pytest.approx(one.feed_us)
    assert one.step.infeed_us > 0


def test_a_direct_attachment_has_a_cable_for_each_machine() -> None:
    plan = _plan("resnet50-pod16", "ipu.io_tiles.num_io_tiles=112")
    images = 16 * 4 * (224 * 224 * 3 * 2 + 4)
    assert plan.feed_us == pytest.approx(images / 44e3)


def test_hosts_begin_executions_together_and_share_weights_once() -> None:
    one, four = _pod(1, "ipu.auto_select_ipus=16"), _pod(4, "ipu.auto_select_ipus=16")
    steps = four.steps_per_execution
    later = four.step.launch_us - one.step.launch_us
    assert later == pytest.approx(2 * 50 / steps)
    assert one.broadcast_us == 0
    weights = sum(layer.parameters for layer in four.layers)
    assert four.broadcast_us == pytest.approx(2 * weights * 2 / 22e3)


def test_gradients_travel_between_ipus_however_many_hosts_there_are() -> None:
    assert _pod(1).all_reduce_us == _pod(4).all_reduce_us


def test_text_says_who_has_what() -> None:
    text = "\n".join(document_text(plan_document(_pod(4), ""), TextStyle(120, True)))
    assert "64 replicas | 4 instances of 16 IPUs | 4 hosts" in text
    assert "each host" in text
    alone = "\n".join(
        document_text(plan_document(_plan("mnist-ipu"), ""), TextStyle(120))
    )
    assert "instance" not in alone


def test_older_requests_have_one_process() -> None:
    spec = load_experiment("mnist-popdist").spec
    assert spec is not None
    request = plan_request(spec)
    content = request_to_json(request)
    assert request_from_json(content) == request
    del content["instances"], content["hosts"]
    assert request_from_json(content).instances == 1
