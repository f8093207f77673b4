"""What stands in for the compiled operation `crop` of libcrop.so on the emulator.

Give this file as --custom-ops to `ipu-workbench exec`. The attributes are how many
rows and columns are cut off on each side.
"""

import tensorflow as tf

import ipu_runtime


def uncrop(gradients, inputs, outputs, attributes):
    """What was cut off had no influence: its gradient is zero."""
    border = int(attributes)
    (middle,) = gradients
    return [tf.pad(middle, [[0, 0], [border, border], [border, border], [0, 0]])]


@ipu_runtime.register_custom_op("libcrop.so", "crop", gradient=uncrop)
def crop(x, attributes):
    border = int(attributes)
    return x[:, border:-border, border:-border, :]
