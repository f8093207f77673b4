"""Experiments as data: one TOML file each."""

EXAMPLES = (
    "mnist-cpu",
    "mnist-ipu",
    "mnist-ipu-faster",
    "mnist-ipu-replicated",
    "mnist-ipu-pipelined",
    "mnist-dense",
    "mnist-padded",
    "cifar10-ipu-strategy",
    "cifar10-ipu-estimator",
    "cifar10-ipu-estimator-replica",
    "cifar10-ipu-pipeline-estimator",
    "cifar10-estimator-cnn",
)
"""Those of the documents that the project stands on."""

ORDER = (
    *EXAMPLES,
    "mnist-popdist",
    "resnet50-pod64",
    "mnist-dense-8-stages",
    "resnet50-pod16",
    "bert-large-pod16",
)
"""In which order to show them, from the first step to the largest model."""
