"""Places inside Keras and TensorFlow where the emulator steps in."""

from __future__ import annotations

import tensorflow as tf
from keras.src import optimizers
from keras.src.models import cloning
from keras.src.ops.node import Node
from keras.src.trainers import trainer
from tensorflow.python.distribute.distribute_lib import ReplicaContextBase

from ipu_runtime.frameworks.keras_api import keras
from ipu_runtime.frameworks.patching import Patch, Replace, calling_module
from ipu_runtime.frameworks.types import Graph


def creation_patches(replace: Replace) -> tuple[Patch, ...]:
    """Replace the constructors of layers and of layer calls."""
    return Patch(keras.Layer, "__init__", replace), Patch(Node, "__init__", replace)


def cloning_patches(replace: Replace) -> tuple[Patch, ...]:
    """Replace the functions that `clone_model` copies models with."""
    return tuple(
        Patch(cloning, name, replace)
        for name in ("_clone_functional_model", "_clone_sequential_model")
    )


def optimizer_patch(replace: Replace) -> Patch:
    """Replace the function that `compile` finds its optimizer with."""
    return Patch(optimizers, "get", replace)


def compiling_patch(replace: Replace) -> Patch:
    """Replace what models of all kinds are compiled with."""
    return Patch(trainer.Trainer, "compile", replace)


def loss_scaling_patch(replace: Replace) -> Patch:
    """Replace the class that `compile` wraps optimizers of mixed models with."""
    return Patch(trainer, "LossScaleOptimizer", replace)


def conversion_patch(replace: Replace) -> Patch:
    """Replace the conversion between types that Keras and scripts call."""
    return Patch(tf, "cast", replace)


def product_patches(replace: Replace) -> tuple[Patch, ...]:
    """Replace the matrix products and convolutions that Keras and scripts call."""
    products = ("matmul", "tensordot", "einsum")
    convolutions = (
        "convolution",
        "conv1d",
        "conv2d",
        "conv3d",
        "conv_transpose",
        "depthwise_conv2d",
        "separable_conv2d",
    )
    return (
        *(Patch(tf, name, replace) for name in products),
        *(Patch(tf.nn, name, replace) for name in convolutions),
    )


def storing_patches(replace: Replace) -> tuple[Patch, ...]:
    """Replace the methods with which Keras' optimizers store what they compute."""
    names = ("assign", "assign_add", "assign_sub")
    return tuple(Patch(keras.optimizers.Optimizer, name, replace) for name in names)


def reduction_patch(replace: Replace) -> Patch:
    """Replace `all_reduce` of replica contexts, those of TensorFlow 1 included."""
    return Patch(ReplicaContextBase, "all_reduce", replace)


def called_by_keras() -> bool:
    """Whether Keras itself has called the function that asks."""
    return calling_module(2).startswith("keras.")


def layer_call_patch(replace: Replace) -> Patch:
    """Replace what calls a layer: its `build` and `call`, masks and losses."""
    return Patch(keras.layers.Layer, "__call__", replace)


def session_patches(replace: Replace) -> tuple[Patch, ...]:
    """Replace `run` of the sessions of TensorFlow 1."""
    kinds = (tf.compat.v1.Session, tf.compat.v1.InteractiveSession)
    return tuple(Patch(kind, "run", replace) for kind in kinds)


def capturing_patch(graph: Graph, replace: Replace) -> Patch:
    """Replace what a function's graph does with tensors of other graphs."""
    return Patch(graph, "capture", replace)
