"""What a script has that `poprun` starts as several instances."""

from __future__ import annotations

from workbench.experiment.experiment_spec import ExperimentSpec
from workbench.experiment.topology import topology

IMPORTS = ("import popdist", "import popdist.tensorflow")
STRATEGY_IMPORT = (
    "from tensorflow.python.ipu.distributed.popdist_strategy import PopDistStrategy"
)

SHARED_ORDER = [
    "        order = own_share(",
    "            order,",
    "            args.batch_size * count_replicas(args),",
    "            popdist.getInstanceIndex(),",
    "            popdist.getNumInstances(),",
    "        )",
]
"""In the loop over epochs, after an epoch's order is known."""


def shared_out(spec: ExperimentSpec) -> bool:
    """Tell whether replicas are shared out among processes."""
    return spec.execution.instances > 1


def command(spec: ExperimentSpec) -> str:
    """Return how to start the script."""
    ipus = topology(spec)
    words = [
        f"poprun --num-instances {spec.execution.instances}",
        f"--num-replicas {ipus.replicas}",
    ]
    if ipus.ipus_per_replica > 1:
        words.append(f"--ipus-per-replica {ipus.ipus_per_replica}")
    return " ".join([*words, "python SCRIPT"])


def count_function(spec: ExperimentSpec) -> str:
    """Return `count_replicas`, and for a pipeline `count_stages`."""
    stages = "def count_stages(args):\n    return NUM_STAGES if args.pipelining else 1"
    alone = "NUM_IPUS"
    if spec.pipeline.stages:
        alone = "NUM_IPUS // (IPUS_PER_REPLICA if args.pipelining else 1)"
    count = "\n".join(
        [
            "def count_replicas(args):",
            "    if not args.use_ipu:",
            "        return 1",
            "    if popdist.isPopdistEnvSet():",
            "        return popdist.getNumTotalReplicas()",
            f"    return {alone}",
        ]
    )
    return f"{stages}\n\n\n{count}" if spec.pipeline.stages else count


def select_lines(spec: ExperimentSpec) -> list[str]:
    """Return how IPUs are selected: this process's share of the job's."""
    per_replica = "IPUS_PER_REPLICA" if spec.pipeline.stages else "1"
    return [
        "    if popdist.isPopdistEnvSet():",
        f"        popdist.tensorflow.set_ipu_config(config, {per_replica})",
        "    else:",
        "        config.auto_select_ipus = NUM_IPUS",
    ]
