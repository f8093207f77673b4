"""Which process of a job this one is, from what the environment says."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ipu_runtime.system.instances import Instance, current_instance


def _tf_config(cluster: Any, kind: str, index: int) -> dict[str, str]:
    task = {"type": kind, "index": index}
    return {"TF_CONFIG": json.dumps({"cluster": cluster, "task": task})}


WORKERS = {"worker": ["a:1", "b:1", "a:2"], "ps": ["c:1"]}


def test_alone_without_anything() -> None:
    assert current_instance({}) == Instance()


def test_a_cluster_is_enough() -> None:
    instance = current_instance(
        _tf_config(WORKERS, "worker", 2) | {"POPDIST_NUM_LOCAL_REPLICAS": "4"}
    )
    assert instance == Instance(True, 12, 4, 1, 8, local_index=1, local_count=2)
    assert (instance.count, instance.index) == (3, 2)


def test_total_replicas_are_shared_out_among_the_processes() -> None:
    told = {"POPDIST_NUM_TOTAL_REPLICAS": "6"}
    instance = current_instance(_tf_config(WORKERS, "worker", 1) | told)
    assert (instance.local_replicas, instance.replica_offset) == (2, 2)


def test_the_chief_comes_first() -> None:
    cluster = {"chief": ["a:1"], "worker": ["b:1"]}
    assert current_instance(_tf_config(cluster, "chief", 0)).index == 0
    assert current_instance(_tf_config(cluster, "worker", 0)).index == 1


def test_an_evaluator_works_alone() -> None:
    assert current_instance(_tf_config(WORKERS, "evaluator", 0)) == Instance()


@pytest.mark.parametrize(
    ("config", "says"),
    [
        ("{", "must be a JSON object with 'cluster' and 'task'"),
        ("[]", "must be a JSON object"),
        ('{"cluster": ["a:1"]}', "must be a JSON object"),
        (
            _tf_config(WORKERS, "worker", 3)["TF_CONFIG"],
            "worker 3, but the cluster has",
        ),
    ],
)
def test_a_config_that_makes_no_sense_is_refused(config: str, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        current_instance({"TF_CONFIG": config})
