"""Every setting of an experiment, declared once."""

from __future__ import annotations

from ipu_runtime.plan.config.config_fields import IPU_CONFIG_FIELDS
from ipu_runtime.plan.config.field import Affects, Field, Kind
from workbench.experiment.losses import LOSSES

_TIME, _MEMORY = Affects.TIME, Affects.MEMORY
_NUMERICS, _DEVICE = Affects.NUMERICS, Affects.DEVICE

APIS = ("cpu", "ipu_strategy", "ipu_estimator", "ipu_pipeline_estimator")

INSTANCE_APIS = ("ipu_strategy", "ipu_estimator", "ipu_pipeline_estimator")
"""Interfaces whose replicas can be shared out among processes."""

EXPERIMENT_FIELDS: tuple[Field, ...] = (
    Field("experiment.name", Kind.TEXT, "", "Short name, used on the command line."),
    Field("experiment.title", Kind.TEXT, "", "One line that says what it is."),
    Field("experiment.teaches", Kind.TEXT, "", "What one learns from it."),
    Field("experiment.group", Kind.TEXT, "Own presets", "Heading in the list."),
    Field("experiment.source", Kind.TEXT, "", "Document that it comes from."),
    Field(
        "experiment.seed",
        Kind.INT,
        0,
        "Seed of weights, data order and dropout.",
        (_NUMERICS,),
        minimum=0,
        maximum=2**31 - 1,
    ),
    Field(
        "data.dataset",
        Kind.TEXT,
        "mnist",
        "mnist, cifar10 (packaged sample), cifar10-full (downloaded), synthetic; an "
        ".npz file with x_train, y_train, x_test, y_test; a .csv file with names in "
        "its first row; a directory that has a directory of images per class, or such "
        "directories in train and test; file.py:function or package.module:function "
        "that returns a tf.data.Dataset of samples and labels, or two of them. Labels "
        "are class numbers, 0 or 1 for train.loss = binary_crossentropy, any numbers "
        "for mse.",
        (_NUMERICS,),
    ),
    Field(
        "data.label_column",
        Kind.TEXT,
        "label",
        "Column of a .csv file that holds the labels; the others are the sample.",
        (_NUMERICS,),
    ),
    Field(
        "data.test_share",
        Kind.FLOAT,
        0.2,
        "Share of your own samples that is kept for testing, where the data have no "
        "part for it; which ones is the same in every run.",
        (_NUMERICS,),
        minimum=0.0,
        maximum=1.0,
    ),
    Field(
        "data.batch_size",
        Kind.INT,
        32,
        "Samples of one micro-batch on one replica.",
        (_NUMERICS, _TIME, _MEMORY),
        minimum=1,
        maximum=65536,
    ),
    Field(
        "data.preparation",
        Kind.CHOICE,
        "trim",
        "What happens to samples that do not fill a batch, a weight update or an "
        "execution: trim drops them, repeat loops over the data, pad adds zeros with "
        "sample weight 0, none keeps a partial batch (CPU only).",
        (_NUMERICS,),
        choices=("trim", "repeat", "pad", "none"),
    ),
    Field(
        "data.labels",
        Kind.CHOICE,
        "categorical",
        "categorical: one-hot vectors; sparse: class numbers.",
        (_TIME,),
        choices=("categorical", "sparse"),
    ),
    Field(
        "data.shuffle",
        Kind.BOOL,
        True,
        "Whether every epoch sees the training data in another order.",
        (_NUMERICS,),
    ),
    Field(
        "data.train_samples",
        Kind.INT,
        0,
        "Training samples to use; 0 means all. Made-up ones are so many at least, in "
        "whole executions on all IPUs.",
        (_NUMERICS, _TIME),
        minimum=0,
    ),
    Field(
        "data.test_samples",
        Kind.INT,
        0,
        "Test samples to use; 0 means all. Made-up ones are so many at least.",
        (_NUMERICS,),
        minimum=0,
    ),
    Field(
        "model.dtype",
        Kind.CHOICE,
        "float32",
        "Type of weights and activations.",
        (_NUMERICS, _TIME, _MEMORY),
        choices=("float32", "float16"),
    ),
    Field(
        "model.source",
        Kind.TEXT,
        "",
        "A Keras model instead of layers: model.keras (.h5, .json), keras:NAME of "
        "keras.applications, file.py:function or package.module:function.",
        (_NUMERICS, _TIME, _MEMORY),
    ),
    Field(
        "model.input_shape",
        Kind.INT_LIST,
        [],
        "Shape of one sample that the source is built for; empty means its own.",
        (_NUMERICS, _TIME, _MEMORY),
        minimum=1,
    ),
    Field(
        "model.classes",
        Kind.INT,
        0,
        "Classes that the source is built for; 0 means its own.",
        (_NUMERICS, _TIME, _MEMORY),
        minimum=0,
        maximum=2**24,
    ),
    Field(
        "train.optimizer",
        Kind.CHOICE,
        "sgd",
        "How weights follow gradients.",
        (_NUMERICS, _TIME, _MEMORY),
        choices=("sgd", "momentum", "rmsprop", "adam"),
    ),
    Field(
        "train.learning_rate",
        Kind.FLOAT,
        0.01,
        "Step size of the optimizer.",
        (_NUMERICS,),
        minimum=0.0,
    ),
    Field(
        "train.momentum",
        Kind.FLOAT,
        0.9,
        "Share of the last update that is kept; only for momentum.",
        (_NUMERICS,),
        minimum=0.0,
        maximum=1.0,
    ),
    Field(
        "train.loss",
        Kind.CHOICE,
        "categorical_crossentropy",
        "What is minimised; must suit data.labels. Those from logits are for outputs "
        "without softmax or sigmoid.",
        (_NUMERICS,),
        choices=LOSSES,
    ),
    Field(
        "train.losses",
        Kind.TEXT_LIST,
        [],
        "A choice of train.loss for every output of the model, in their order, whose "
        "sum is minimised; empty means train.loss for all.",
        (_NUMERICS,),
        choices=LOSSES,
    ),
    Field(
        "train.epochs",
        Kind.INT,
        3,
        "Times that the training data are gone through.",
        (_NUMERICS, _TIME),
        minimum=1,
        maximum=100_000,
    ),
    Field(
        "train.steps_per_epoch",
        Kind.INT,
        0,
        "Batches of an epoch over all replicas; 0 means what the data have.",
        (_NUMERICS, _TIME),
        minimum=0,
    ),
    Field(
        "train.evaluate",
        Kind.BOOL,
        True,
        "Whether the test data are used after training.",
    ),
    Field(
        "train.test_only",
        Kind.BOOL,
        False,
        "Whether to skip training and evaluate a checkpoint of execution.model_dir.",
    ),
    Field(
        "train.on_nonfinite",
        Kind.CHOICE,
        "fail",
        "What a loss that is not a number does: fail ends the run, continue marks it.",
        choices=("fail", "continue"),
    ),
    Field(
        "execution.api",
        Kind.CHOICE,
        "ipu_strategy",
        "What runs it: plain Keras on the CPU, or one of the IPU's interfaces.",
        (_TIME, _DEVICE),
        choices=APIS,
    ),
    Field(
        "execution.steps_per_execution",
        Kind.STEPS,
        1,
        "Steps of one program run (an estimator's iterations per loop); epoch "
        "means a whole epoch.",
        (_TIME,),
        minimum=1,
    ),
    Field(
        "execution.gradient_accumulation",
        Kind.INT,
        1,
        "Micro-batches per weight update on each replica; a pipeline needs it to be a "
        "multiple of its overlap.",
        (_NUMERICS, _TIME, _MEMORY),
        minimum=1,
        maximum=100_000,
    ),
    Field(
        "execution.accumulation_reduction",
        Kind.CHOICE,
        "sum",
        "How the gradients of the micro-batches of one update are put together.",
        (_NUMERICS,),
        choices=("sum", "mean", "running_mean"),
    ),
    Field(
        "execution.metric_reduction",
        Kind.CHOICE,
        "none",
        "How replicas' metrics become one number; none shows the last replica's.",
        choices=("none", "sum", "mean"),
    ),
    Field(
        "execution.system",
        Kind.TEXT,
        "M2000",
        "System of the hardware table that is modelled.",
        (_TIME, _MEMORY, _DEVICE),
    ),
    Field(
        "execution.instances",
        Kind.INT,
        1,
        "Processes that the replicas are shared out among; with more than one, "
        "PopDistStrategy takes the mean of their gradients, where IPUStrategy sums.",
        (_NUMERICS, _TIME, _DEVICE),
        minimum=1,
        maximum=1024,
    ),
    Field(
        "execution.hosts",
        Kind.INT,
        0,
        "Hosts that the instances are spread over; each feeds its own replicas. 0: as "
        "many as the system is sold with for its IPUs, which is one, or one for every "
        "64. Runs here put all of them on this machine.",
        (_TIME,),
        minimum=0,
        maximum=1024,
    ),
    Field(
        "execution.model_dir",
        Kind.TEXT,
        "",
        "Directory of an estimator's checkpoints; empty means inside the run's record.",
    ),
    Field(
        "execution.checkpoint_every_s",
        Kind.FLOAT,
        60.0,
        "Seconds between checkpoints inside an epoch: what a stopped or killed run "
        "does again at most. Every epoch ends with one; 0 leaves it at those.",
        minimum=0,
        maximum=86_400,
        unit="s",
    ),
    Field(
        "pipeline.stages",
        Kind.INT_LIST,
        [],
        "Stage of every layer, inputs left out; empty means no pipeline.",
        (_TIME, _MEMORY, _DEVICE),
        minimum=0,
    ),
    Field(
        "pipeline.schedule",
        Kind.CHOICE,
        "Grouped",
        "How stages overlap. Grouped is usually fastest; Interleaved keeps fewer "
        "activations; Sequential runs one stage at a time.",
        (_TIME, _MEMORY),
        choices=("Grouped", "Interleaved", "Sequential"),
    ),
    Field(
        "pipeline.recomputation",
        Kind.CHOICE,
        "Auto",
        "How activations are recomputed when ipu.allow_recompute is true.",
        (_TIME, _MEMORY),
        choices=(
            "Auto",
            "RecomputeThenBackpropagate",
            "RecomputeAndBackpropagateInterleaved",
        ),
    ),
    Field(
        "pipeline.device_mapping",
        Kind.INT_LIST,
        [],
        "IPU of every stage; empty means one IPU per stage, in order.",
        (_TIME, _MEMORY, _DEVICE),
        minimum=0,
    ),
    Field(
        "pipeline.offload_activations",
        Kind.BOOL,
        False,
        "Whether waiting activations live in streaming memory instead of the IPU.",
        (_TIME, _MEMORY),
    ),
    Field(
        "pipeline.offload_weight_update_variables",
        Kind.BOOL,
        False,
        "Whether what only the weight update needs, such as momentum, lives in "
        "streaming memory instead of the IPU.",
        (_TIME, _MEMORY),
    ),
    Field(
        "pipeline.replicated_optimizer_state_sharding",
        Kind.BOOL,
        False,
        "Whether each replica fetches only its share of what "
        "pipeline.offload_weight_update_variables keeps in streaming memory.",
        (_TIME,),
    ),
    Field(
        "pipeline.offload_gradient_accumulation_buffers",
        Kind.BOOL,
        False,
        "Whether sums of gradients live in streaming memory, from where every "
        "backward pass fetches them, and where it sends them back.",
        (_TIME, _MEMORY),
    ),
    Field(
        "pipeline.replicated_weight_sharding",
        Kind.BOOL,
        False,
        "Whether each replica holds its share of the weights, and gathers the rest "
        "for every pass of a stage.",
        (_TIME, _MEMORY),
    ),
    Field(
        "pipeline.offload_weights",
        Kind.BOOL,
        False,
        "Whether the shares of pipeline.replicated_weight_sharding live in streaming "
        "memory instead of the IPU.",
        (_TIME, _MEMORY),
    ),
    Field(
        "pipeline.locked",
        Kind.TEXT_LIST,
        [],
        "Layers that balancing and the search for the best plan leave in their stage.",
    ),
)

FIELD_OF_PATH: dict[str, Field] = {
    **{field.path: field for field in EXPERIMENT_FIELDS},
    **{f"ipu.{field.path}": field for field in IPU_CONFIG_FIELDS},
}
"""Every field of an experiment by its full dotted path, in the form's order."""
