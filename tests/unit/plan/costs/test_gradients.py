"""The backward pass that follows from a forward pass by rule."""

from __future__ import annotations

import pytest

from ipu_runtime.plan.model.gradients import backward_pass, forward_flops, gradients
from ipu_runtime.plan.model.operations import Operation, OpKind

MATMUL = Operation(OpKind.MATMUL, "matmul", (-6, 256, 128), trains=True, first=True)
BIAS = Operation(OpKind.BIAS, "bias add", (-6 * 128, 128), trains=True)
RELU = Operation(OpKind.ACTIVATION, "relu", (-6 * 128,))
DENSE = (MATMUL, BIAS, RELU)


def names(*forward: Operation, input_gradient: bool, trained: bool) -> list[str]:
    backward = backward_pass(forward, input_gradient=input_gradient, trained=trained)
    return [op.name for op in backward]


@pytest.mark.parametrize(
    "product",
    [
        MATMUL,
        Operation(OpKind.PRODUCT, "scores", (64, 32, 48, -4)),
        Operation(OpKind.PRODUCT, "context", (64, 48, 32, -4)),
        Operation(OpKind.CONVOLUTION, "conv", (-196, 32, 64, 9, 2, -196)),
    ],
)
def test_either_gradient_of_a_product_is_as_much_work_as_it(product: Operation) -> None:
    of_input, of_weights, _ = gradients(product)
    (left,), (right,) = of_input, of_weights
    assert left.size_at(3) == right.size_at(3) == product.size_at(3)


def test_a_strided_convolution_has_a_data_gradient_over_what_it_took() -> None:
    strided = Operation(OpKind.CONVOLUTION, "conv", (-49, 32, 64, 9, 1, -49))
    (left,), _, _ = gradients(strided)
    assert left.shape == (-49, 64, 32, 9, 1)


def test_gradients_come_in_the_other_order() -> None:
    assert names(*DENSE, input_gradient=True, trained=True) == [
        "relu gradient",
        "bias gradient",
        "data gradient",
        "weight gradient",
    ]


def test_what_nothing_needs_is_left_out() -> None:
    first = names(*DENSE, input_gradient=False, trained=True)
    assert first == ["relu gradient", "bias gradient", "weight gradient"]
    frozen = names(*DENSE, input_gradient=True, trained=False)
    assert frozen == ["relu gradient", "data gradient"]
    assert names(*DENSE, input_gradient=False, trained=False) == []


def test_a_normalisation_has_one_gradient_for_its_weights_and_its_input() -> None:
    norm = Operation(OpKind.NORM, "normalise", (-640, -10), trains=True, first=True)
    for needed in ((True, True), (True, False), (False, True)):
        found = names(norm, input_gradient=needed[0], trained=needed[1])
        assert found == ["normalise gradient"]
    assert names(norm, input_gradient=False, trained=False) == []


def test_sums_hand_their_gradient_on_and_products_do_not() -> None:
    add = Operation(OpKind.ELEMENTWISE, "add", (-640,))
    scale = Operation(OpKind.ELEMENTWISE, "scale", (-640,), cycles=3, gradient_cycles=2)
    backward = backward_pass((add, scale), input_gradient=True, trained=False)
    assert [(op.name, op.cycles) for op in backward] == [("scale gradient", 2)]


def test_a_loop_adds_up_the_gradients_of_its_weights() -> None:
    every = Operation(OpKind.MATMUL, "matmul", (-1, 20, 80), repeat=24, trains=True)
    _, _, *added = backward_pass((every,), input_gradient=True, trained=True)
    assert [(op.shape, op.repeat) for op in added] == [((20 * 80,), 24)]
    assert forward_flops((every,)) == 2 * 24 * 20 * 80
