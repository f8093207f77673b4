"""A small U-Net for segmentation, in four pipeline stages.

The way up needs what the way down has seen at the same scale. Convolutions without
padding make it smaller, so that what is handed over is cropped first: by slicing, or
by an operation of a compiled library, for which `unet_crop.py` stands in here.
"""

import argparse

import numpy as np
import tensorflow as tf
from tensorflow import keras
from tensorflow.keras import backend as K
from tensorflow.keras import layers
from tensorflow.python import ipu

NUM_STAGES = 4


class CompiledCrop(layers.Layer):
    """The middle of pictures, cut out by an operation of a compiled library."""

    def __init__(self, library, border, **kwargs):
        super().__init__(**kwargs)
        self.library = library
        self.border = border

    def call(self, x):
        batch, height, width, channels = x.shape
        shape = (batch, height - 2 * self.border, width - 2 * self.border, channels)
        (middle,) = ipu.custom_ops.precompiled_user_op(
            [x],
            self.library,
            outs={"output_types": [x.dtype], "output_shapes": [tf.TensorShape(shape)]},
            op_name="crop",
            attributes=str(self.border),
            gradient_attributes=str(self.border),
        )
        return middle


def crop(x, like, library=""):
    """Return the middle of `x`, as large as `like`."""
    border = (x.shape[1] - like.shape[1]) // 2
    if library:
        return CompiledCrop(library, border)(x)
    return x[:, border:-border, border:-border, :]


def convolve(x, filters):
    for _ in range(2):
        x = layers.Conv2D(filters, 3, activation="relu")(x)
    return x


def build_model(args):
    """Return the model; its stages are the ends and turns of the U."""
    filters = args.filters
    shape = (args.size, args.size, 1)
    inputs = layers.Input(shape=shape, batch_size=args.batch_size)
    with keras.ipu.PipelineStage(0):
        fine = convolve(inputs, filters)
        x = layers.MaxPooling2D()(fine)
    with keras.ipu.PipelineStage(1):
        x = convolve(x, 2 * filters)
    with keras.ipu.PipelineStage(2):
        x = layers.Conv2DTranspose(filters, 2, strides=2)(x)
        x = layers.concatenate([crop(fine, x, args.crop_library), x])
    with keras.ipu.PipelineStage(3):
        x = convolve(x, filters)
        outputs = layers.Conv2D(1, 1, activation="sigmoid")(x)
    return keras.Model(inputs, outputs)


def dice_loss(truth, prediction):
    """One minus the overlap of two masks: 0 where they are equal."""
    both = K.sum(truth * prediction, axis=[1, 2, 3])
    each = K.sum(truth, axis=[1, 2, 3]) + K.sum(prediction, axis=[1, 2, 3])
    return 1.0 - (2.0 * both + 1.0) / (each + 1.0)


def total_loss(truth, prediction):
    crossentropy = keras.losses.binary_crossentropy(truth, prediction)
    return K.mean(crossentropy, axis=[1, 2]) + dice_loss(truth, prediction)


def draw_cells(count, size, seed=0):
    """Return noisy pictures of two cells each, and masks that show where these are."""
    random = np.random.RandomState(seed)
    y, x = np.mgrid[0:size, 0:size]
    masks = np.zeros((count, size, size, 1), np.float32)
    for mask in masks:
        for centre in random.randint(0, size, (2, 2)):
            mask[np.hypot(y - centre[0], x - centre[1]) < size / 6] = 1.0
    noise = random.normal(0.0, 0.3, masks.shape)
    return (masks + noise).astype(np.float32), masks


def augment(image, mask):
    """Turn a picture and its mask round, each way in half of the cases."""
    both = tf.concat([image, mask], axis=-1)
    both = tf.image.random_flip_left_right(both)
    both = tf.image.random_flip_up_down(both)
    return both[..., :1], both[..., 1:]


def make_dataset(args, model):
    dataset = tf.data.Dataset.from_tensor_slices(draw_cells(args.samples, args.size))
    if args.augment:
        dataset = dataset.shuffle(args.samples).map(augment)
    # The model sees more than it tells about.
    border = (args.size - model.output_shape[1]) // 2
    inside = slice(border, -border)
    dataset = dataset.map(lambda image, mask: (image, mask[inside, inside]))
    dataset = dataset.repeat().batch(args.batch_size, drop_remainder=True)
    return dataset.prefetch(tf.data.experimental.AUTOTUNE)


def parse_arguments(arguments):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", type=int, default=36, help="a multiple of 4")
    parser.add_argument("--filters", type=int, default=8, help="of the first layer")
    parser.add_argument("--samples", type=int, default=64)
    parser.add_argument("--batch-size", type=int, default=2)
    parser.add_argument("--accumulate", type=int, default=8, help="batches per update")
    parser.add_argument("--updates", type=int, default=10, help="in an epoch")
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--learning-rate", type=float, default=2e-3)
    parser.add_argument("--augment", action="store_true")
    parser.add_argument(
        "--crop-library",
        default="",
        metavar="FILE",
        help="a library with a compiled operation `crop`, such as libcrop.so",
    )
    parser.add_argument(
        "--schedule",
        default="Grouped",
        choices=("Grouped", "Interleaved", "Sequential"),
    )
    return parser.parse_args(arguments)


def main(arguments=None):
    args = parse_arguments(arguments)
    config = ipu.config.IPUConfig()
    config.auto_select_ipus = NUM_STAGES
    config.allow_recompute = True
    config.configure_ipu_system()
    with ipu.ipu_strategy.IPUStrategy().scope():
        model = build_model(args)
        model.set_pipelining_options(
            gradient_accumulation_steps_per_replica=args.accumulate,
            gradient_accumulation_reduction_method="mean",
            pipeline_schedule=ipu.ops.pipelining_ops.PipelineSchedule[args.schedule],
        )
        model.print_pipeline_stage_assignment_summary()
        steps = args.accumulate * args.updates
        rate = keras.optimizers.schedules.ExponentialDecay(
            args.learning_rate, args.updates, 0.9
        )
        model.compile(
            optimizer=keras.optimizers.Adam(rate),
            loss=total_loss,
            metrics=[dice_loss],
            steps_per_execution=steps,
        )
        data = make_dataset(args, model)
        history = model.fit(data, epochs=args.epochs, steps_per_epoch=steps, verbose=2)
        loss, dice = model.evaluate(data, steps=steps, verbose=0)
    print(f"Overlap with the masks: {1 - dice:.3f}")
    return model, history.history, (loss, dice)


if __name__ == "__main__":
    main()
