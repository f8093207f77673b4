"""`python -m docs.applications [NAME...]`: read and plan the models of Keras.

Each is built without trained weights, so nothing is fetched. The table of
cost-model.md shows what is stored here.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from bench.machine import describe
from docs.tables import markdown

STORED = Path(__file__).parent / "applications.json"
BATCH_SIZE = 1
IPUS = (2, 4, 8, 16, 32)
"""Those that a device may have, each with one stage."""
SCHEDULES = ("Grouped", "Interleaved", "Sequential")


def read(name: str) -> dict[str, Any]:
    """Build one model, read it and plan it for one IPU."""
    import keras

    from ipu_runtime.engine.describe.keras_reader import read_model

    model = getattr(keras.applications, name)(weights=None)
    if None in model.input_shape[1:]:
        # Images of any size; the device needs one.
        sized = keras.Input((224, 224, 3))
        model = keras.models.clone_model(model, input_tensors=sized)
    spec = read_model(model)
    traced = [layer.traced for layer in spec.layers if layer.traced]
    remarks = {remark for work in traced for remark in work.remarks}
    return {
        "parameters": spec.parameters,
        "layers": len(spec.stage_layers),
        "traced": len(traced),
        "remarks": sorted(remarks),
        "training": _samples_per_second(spec, training=True),
        "inference": _samples_per_second(spec, training=False),
        "fewest_ipus": fewest_ipus(name),
    }


def fewest_ipus(name: str) -> int | None:
    """Return on how many IPUs it can be trained, with stages that `balance` finds."""
    from workbench.experiment.experiment_loading import load_experiment
    from workbench.planning.balancing import balanced_experiment
    from workbench.planning.experiment_plan import plan_experiment

    fixed = (
        f"data.batch_size={BATCH_SIZE}",
        "train.optimizer=sgd",
        "ipu.allow_recompute=true",
    )
    specs = []
    for kind in SCHEDULES:
        changes = (*fixed, f"pipeline.schedule={kind}")
        loaded = load_experiment(f"keras:{name}", changes)
        assert loaded.spec is not None, loaded.problems
        specs.append(loaded.spec)
    if all(memory.fits for memory in plan_experiment(specs[0]).memory):
        return 1
    for ipus in IPUS:
        if any(balanced_experiment(spec, ipus).result.feasible for spec in specs):
            return ipus
    return None


def plan_seconds(name: str) -> dict[str, float]:
    """Return how long the processor plans it: with TensorFlow, and from the cache."""
    command = (Path(sys.executable).with_name("ipu-workbench"), "plan", f"keras:{name}")
    with tempfile.TemporaryDirectory() as home:
        environment = {**os.environ, "IPU_WORKBENCH_HOME": home}
        return {
            "first_s": _processor_seconds(command, environment),
            "again_s": _processor_seconds(command, environment),
        }


def _processor_seconds(command: tuple[Any, ...], environment: dict[str, str]) -> float:
    before = os.times()
    finished = subprocess.run(command, env=environment, capture_output=True)
    # A model that does not fit one IPU is an answer, too.
    assert finished.returncode in (0, 3), finished.stderr.decode()
    after = os.times()
    used = after.children_user - before.children_user
    return round(used + after.children_system - before.children_system, 2)


def _samples_per_second(spec: Any, *, training: bool) -> float | None:
    """Return the modelled throughput; None if the model does not fit one IPU."""
    from ipu_runtime.plan.planner import make_plan
    from ipu_runtime.plan.problem import Severity
    from ipu_runtime.plan.request import PlanRequest

    request = PlanRequest(
        spec, BATCH_SIZE, batches=100, steps_per_execution=100, training=training
    )
    plan = make_plan(request, with_remedies=False)
    if any(problem.severity is Severity.NO_FIT for problem in plan.problems):
        return None
    return round(plan.samples_per_second, 1)


def table() -> str:
    """What is stored, as a table."""
    stored = json.loads(STORED.read_text(encoding="utf-8"))
    rows = [
        [
            name,
            f"{found['parameters'] / 1e6:.1f} M",
            str(found["layers"]),
            str(found["traced"]),
            "; ".join(found["remarks"]) or "none",
            f"{found['first_s']:.1f} s",
            f"{found['again_s']:.1f} s",
            _throughput(found["training"]),
            _throughput(found["inference"]),
            str(found["fewest_ipus"] or f"none up to {IPUS[-1]}"),
        ]
        for name, found in stored["models"].items()
    ]
    columns = (
        "model",
        "parameters",
        "layers",
        "traced",
        "not known",
        "plan, first",
        "plan, again",
        "training, samples/s",
        "inference, samples/s",
        "trains on IPUs",
    )
    processor = stored["machine"]["processor"]
    return markdown(columns, rows) + (
        f"\n\nModelled on one IPU with a batch of {BATCH_SIZE} in float32. Seconds of "
        f"`plan` are those of a processor ({processor}), first with TensorFlow, then "
        "from the cache. The last column is the smallest number of IPUs on which it "
        "can be trained with SGD and that batch, with stages found by `balance`, the "
        "Grouped, Interleaved or Sequential schedule and recomputation."
    )


def _throughput(samples_per_second: float | None) -> str:
    return f"{samples_per_second:,.1f}" if samples_per_second else "does not fit"


def main() -> None:
    """Read the named models, or all, each in a process of its own."""
    if sys.argv[1:2] == ["--one"]:
        print(json.dumps(read(sys.argv[2])))
        return
    import keras

    models: dict[str, Any] = {}
    if STORED.exists():
        models = json.loads(STORED.read_text(encoding="utf-8"))["models"]
    everything = [name for name in dir(keras.applications) if name[0].isupper()]
    for name in sys.argv[1:] or everything:
        command = (sys.executable, "-m", "docs.applications", "--one", name)
        finished = subprocess.run(command, check=True, stdout=subprocess.PIPE)
        read_model = json.loads(finished.stdout.splitlines()[-1])
        models[name] = {**read_model, **plan_seconds(name)}
        print(name, models[name], file=sys.stderr, flush=True)
        content = {"machine": describe(), "models": dict(sorted(models.items()))}
        STORED.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
