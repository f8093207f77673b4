"""Replicas shared out among processes and hosts: what is refused, what it costs."""

from __future__ import annotations

import pytest

from ipu_runtime.plan.problem import Severity
from ipu_runtime.plan.request_json import request_from_json, request_to_json
from workbench.core.experiment.experiment_loading import load_experiment
from workbench.core.planning.experiment_plan import plan_experiment, plan_request
from workbench.core.planning.plan_text import plan_lines
from workbench.core.planning.text_table import TextStyle

IMAGE_BYTES = 20 * (224 * 224 * 3 * 2 + 4)
"""One micro-batch of resnet50-pod64: halves, and the classes."""


def _plan(preset: str, *changes: str):  # type: ignore[no-untyped-def]
    loaded = load_experiment(preset, changes)
    assert loaded.spec is not None, loaded.problems
    return plan_experiment(loaded.spec)


def _pod(hosts: int, *changes: str):  # type: ignore[no-untyped-def]
    own = (f"execution.instances={hosts}", f"execution.hosts={hosts}")
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
    text = "\n".join(plan_lines(_pod(4), "title", TextStyle(120, ascii_only=True)))
    assert "64 replicas | 4 instances of 16 IPUs | 4 hosts" in text
    assert "each host" in text
    alone = "\n".join(plan_lines(_plan("mnist-ipu"), "title", TextStyle(120)))
    assert "instance" not in alone


def test_older_requests_have_one_process() -> None:
    spec = load_experiment("mnist-popdist").spec
    assert spec is not None
    request = plan_request(spec)
    content = request_to_json(request)
    assert request_from_json(content) == request
    del content["instances"], content["hosts"]
    assert request_from_json(content).instances == 1
