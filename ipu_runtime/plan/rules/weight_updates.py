"""What a weight update is made of: how many samples, and at which learning rate.

Micro-batches are summed unless asked for their mean, and so are replicas under
`IPUStrategy`; `PopDistStrategy` and the cross-replica optimizers of estimators take
the mean over replicas. A sum of n mean gradients moves the weights as n times the
learning rate would, if the optimizer is linear in the gradient. Optimizers that divide
by the size of gradients (RMSprop, Adam) move them as before.
"""

from __future__ import annotations

from collections.abc import Iterator

from ipu_runtime.plan.problem import Problem, Severity
from ipu_runtime.plan.request import PlanRequest
from ipu_runtime.plan.rules.replica_counts import replica_count

_LINEAR = ("sgd", "momentum")
_REDUCTION, _RATE = "execution.accumulation_reduction", "train.learning_rate"
_SAME = 1e-5
"""Rates are written with six digits."""


def samples_per_update(request: PlanRequest) -> int:
    """Return the samples of one weight update, over all replicas."""
    return request.batch_size * request.gradient_accumulation * replica_count(request)


def summed_gradients(request: PlanRequest) -> int:
    """Return how many mean gradients of micro-batches make one summed gradient."""
    if not request.training:
        return 1
    micro_batches = request.gradient_accumulation * request.sums_micro_batches
    replicas = replica_count(request) * request.sums_replicas
    return sum_of_gradients(request.optimizer, micro_batches, replicas)


def sum_of_gradients(optimizer: str, micro_batches: int, replicas: int) -> int:
    """Return the same, of so many micro-batches and replicas that are summed."""
    linear = optimizer.startswith(_LINEAR)
    return max(micro_batches, 1) * max(replicas, 1) if linear else 1


def effective_rate(request: PlanRequest) -> float:
    """Return the rate at which the mean gradient of an update moves the weights."""
    return request.learning_rate * summed_gradients(request)


def check_learning_rate(request: PlanRequest) -> Iterator[Problem]:
    """Say at which rate weights are updated where gradients are summed."""
    factor = summed_gradients(request)
    if factor == 1:
        return
    replicas = max(replica_count(request) * request.sums_replicas, 1)
    micro_batches = factor // replicas
    parts = ((micro_batches, "micro-batches"), (replicas, "replicas"))
    summed = " and ".join(f"{number} {word}" for number, word in parts if number > 1)
    rate = request.learning_rate
    scaled = float(rate_text(rate / factor))
    effective, way = f"{factor} times as large", f"divide it by {factor}"
    if rate:
        effective = rate_text(rate * factor)
        way = f"{rate_text(scaled)} makes it {rate_text(rate)}"
    by_mean = micro_batches > 1
    if by_mean:
        way += (
            f", as does {_REDUCTION} = mean"
            if factor == micro_batches
            else (f"; {_REDUCTION} = mean sums replicas only")
        )
    yield Problem(
        _RATE,
        f"effective learning rate {effective}: the gradients of {summed} are summed",
        way,
        Severity.WARNING,
        exception="",
        suggestion=scaled if rate else None,
        others=((_REDUCTION, "mean"),) * by_mean,
    )


def update_changes(before: PlanRequest, after: PlanRequest) -> tuple[str, ...]:
    """Say what another request changes of the training itself, not of its speed."""
    if not (before.training and after.training):
        return ()
    lines = []
    samples = samples_per_update(before), samples_per_update(after)
    if all(samples) and samples[0] != samples[1]:
        fewer = samples[1] > samples[0]
        times = max(samples) / min(samples)
        lines.append(
            f"{samples[1]:,} samples per update instead of {samples[0]:,}: "
            f"{times:.3g} times {'fewer' if fewer else 'more'} updates an epoch"
        )
    rates = effective_rate(before), effective_rate(after)
    if all(rates) and abs(rates[1] / rates[0] - 1) > _SAME:
        texts = " to ".join(map(rate_text, rates))
        lines.append(f"effective learning rate {texts}{_sum_words(after)}")
    return tuple(lines)


def rate_text(rate: float) -> str:
    """Return a learning rate with the digits that matter."""
    return f"{rate:.6g}"


def _sum_words(request: PlanRequest) -> str:
    factor = summed_gradients(request)
    return f" (sum of {factor} gradients)" if factor > 1 else ""
