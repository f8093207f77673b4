"""A small encoder in the manner of BERT, trained to fill gaps, in four stages.

The first stage embeds the words, the next two attend, and the last one guesses those
that are hidden. Gradients of many batches are accumulated for each update of LAMB.
"""

import argparse
import contextlib

import numpy as np
import tensorflow as tf
from ipu_tensorflow_addons.keras.layers import Embedding
from ipu_tensorflow_addons.keras.optimizers import LAMBIpuOptimizer
from tensorflow import keras
from tensorflow.keras import layers
from tensorflow.python import ipu

NUM_STAGES = 4
HIDDEN = 0
"""The word that stands for a gap."""


class WarmUp(keras.optimizers.schedules.LearningRateSchedule):
    """The rate rises in equal steps, and then falls to zero."""

    def __init__(self, highest, rising, updates):
        super().__init__()
        self.highest = highest
        self.rising = rising
        self.updates = updates

    def __call__(self, step):
        up = (step + 1.0) / self.rising
        down = (self.updates - step) / max(1.0, self.updates - self.rising)
        return self.highest * tf.maximum(0.0, tf.minimum(up, down))


class Embeddings(layers.Layer):
    """Words and where they are, as vectors."""

    def __init__(self, words, length, width, **kwargs):
        super().__init__(**kwargs)
        self.words = Embedding(words, width)
        self.places = Embedding(length, width)
        self.norm = layers.LayerNormalization(epsilon=1e-3)
        self.length = length

    def call(self, words):
        places = tf.range(self.length)[tf.newaxis]
        return self.norm(self.words(words) + self.places(places))


class EncoderLayer(layers.Layer):
    """Attention and two dense layers, each added to what was before it."""

    def __init__(self, width, heads, dropout, **kwargs):
        super().__init__(**kwargs)
        self.attention = layers.MultiHeadAttention(heads, width // heads)
        self.wide = layers.Dense(4 * width, activation=tf.nn.gelu)
        self.narrow = layers.Dense(width)
        self.norms = [layers.LayerNormalization(epsilon=1e-3) for _ in range(2)]
        self.drops = [layers.Dropout(dropout) for _ in range(2)]

    def call(self, x, training=False):
        attended = self.drops[0](self.attention(x, x), training=training)
        x = self.norms[0](x + attended)
        return self.norms[1](x + self.drops[1](self.narrow(self.wide(x)), training))


def build_model(args):
    def part(index):
        return (
            contextlib.nullcontext() if args.one_ipu else keras.ipu.PipelineStage(index)
        )

    words = keras.Input(
        shape=(args.length,), dtype=tf.int32, batch_size=args.batch_size
    )
    with part(0):
        x = Embeddings(args.words, args.length, args.width)(words)
    for stage in (1, 2):
        with part(stage):
            x = EncoderLayer(args.width, args.heads, args.dropout)(x)
    with part(3):
        x = layers.Dense(args.words)(x)
        # Losses are not for half precision.
        guesses = layers.Activation("linear", dtype="float32")(x)
    return keras.Model(words, guesses)


def write_sentences(args, seed=0):
    """Return sentences with gaps, the words of the sentences, and where gaps are."""
    random = np.random.RandomState(seed)
    first = random.randint(0, args.words - 1, (args.sentences, 1))
    step = random.randint(1, 4, (args.sentences, 1))
    words = 1 + (first + step * np.arange(args.length)) % (args.words - 1)
    gaps = random.uniform(size=words.shape) < 0.2
    shown = np.where(gaps, HIDDEN, words)
    return shown.astype(np.int32), words.astype(np.int32), gaps.astype(np.float32)


def make_optimizer(args, updates):
    rate = WarmUp(args.learning_rate, updates // 4 + 1, updates)
    if args.optimizer == "adam":
        optimizer = keras.optimizers.Adam(rate, clipnorm=1.0)
    else:
        optimizer = LAMBIpuOptimizer(
            rate,
            weight_decay_rate=0.01,
            exclude_from_weight_decay=["bias", "gamma", "beta"],
        )
    if not args.loss_scaling:
        return optimizer
    return keras.ipu.optimizers.ALSOptimizer(
        optimizer, initial_loss_scaling_factor=args.loss_scaling
    )


def set_options(args, model):
    """Accumulate gradients, in a pipeline unless there is one IPU only."""
    common = {
        "gradient_accumulation_steps_per_replica": args.accumulate,
        "gradient_accumulation_reduction_method": "mean",
        "offload_weight_update_variables": False,
    }
    if args.one_ipu:
        model.set_gradient_accumulation_options(**common)
    else:
        model.set_pipelining_options(
            pipeline_schedule=ipu.ops.pipelining_ops.PipelineSchedule.Interleaved,
            **common,
        )


def parse_arguments(arguments):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--words", type=int, default=32)
    parser.add_argument("--length", type=int, default=16, help="of a sentence")
    parser.add_argument("--width", type=int, default=32)
    parser.add_argument("--heads", type=int, default=4)
    parser.add_argument("--dropout", type=float, default=0.1)
    parser.add_argument("--sentences", type=int, default=512)
    parser.add_argument("--batch-size", type=int, default=4)
    parser.add_argument("--accumulate", type=int, default=16, help="batches per update")
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--learning-rate", type=float, default=5e-3)
    parser.add_argument("--optimizer", default="lamb", choices=("lamb", "adam"))
    parser.add_argument("--replicas", type=int, default=1, choices=(1, 2))
    parser.add_argument("--one-ipu", action="store_true", help="without a pipeline")
    parser.add_argument(
        "--precision", default="float32", choices=("float32", "mixed_float16")
    )
    parser.add_argument("--loss-scaling", type=int, default=0, help="a power of two")
    return parser.parse_args(arguments)


def main(arguments=None):
    args = parse_arguments(arguments)
    config = ipu.config.IPUConfig()
    config.auto_select_ipus = args.replicas * (1 if args.one_ipu else NUM_STAGES)
    config.matmuls.poplar_options["availableMemoryProportion"] = "0.3"
    config.configure_ipu_system()
    keras.mixed_precision.set_global_policy(args.precision)

    dataset = tf.data.Dataset.from_tensor_slices(write_sentences(args))
    dataset = dataset.batch(args.batch_size, drop_remainder=True)
    steps = args.sentences // (args.batch_size * args.replicas)
    with ipu.ipu_strategy.IPUStrategy().scope():
        model = build_model(args)
        set_options(args, model)
        model.compile(
            optimizer=make_optimizer(args, args.epochs * steps // args.accumulate),
            loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
            weighted_metrics=["accuracy"],
            steps_per_execution=steps,
        )
        history = model.fit(dataset, epochs=args.epochs, verbose=2)
    keras.mixed_precision.set_global_policy("float32")
    size = sum(weight.shape.num_elements() for weight in model.trainable_variables)
    print(f"{size} weights fill {history.history['accuracy'][-1]:.0%} of the gaps")
    return model, history.history


if __name__ == "__main__":
    main()
