"""Reading a source once: from a Keras model to what a plan needs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from workbench.error_line import telling_line
from workbench.models.captured_model import read_capture
from workbench.models.code_trust import allow, check_may_run, may_run
from workbench.models.model_source import (
    ModelSource,
    SourceError,
    SourceKind,
    not_read,
)
from workbench.models.source_files import content_key, holds_code
from workbench.models.source_model import (
    SourceModel,
    TensorFacts,
    load_source_model,
    save_source_model,
)

Tell = Callable[[str], None]


def read_source(
    source: ModelSource, tell: Tell, *, trust: bool, calls: bool
) -> SourceModel:
    """Return the model of a source, from the cache if its content is the same.

    Args:
        source: What to read.
        tell: Told that TensorFlow is loaded, which takes seconds.
        trust: Whether the user says that its code may run.
        calls: Whether it may run now; otherwise what was read before has to do.
    """
    key = content_key(source)
    found = load_source_model(key)
    holds_code = source.is_code or (found is not None and found.holds_code)
    if holds_code and trust:
        allow(source)
    if holds_code:
        check_may_run(source)
    if found is None and source.is_code and not calls:
        raise not_read(source)
    if found is None:
        if source.kind is not SourceKind.CAPTURE:
            tell(f"reading {source.text} with TensorFlow; plans then use the cache")
        found = _read(source, trust=trust, calls=calls)
        save_source_model(key, found)
    return found


def _read(source: ModelSource, *, trust: bool, calls: bool) -> SourceModel:
    if source.kind is SourceKind.CAPTURE:
        return read_capture(Path(source.place)).model
    try:
        return _outlined(source, trust=False)
    except SourceError:
        if source.is_code or not holds_code(Path(source.place)):
            raise
        if trust:
            allow(source)
        if not may_run(source):
            raise
    if not calls:
        raise not_read(source)
    return replace(_outlined(source, trust=True), holds_code=True)


def _outlined(source: ModelSource, *, trust: bool) -> SourceModel:
    # Late, because Keras loads TensorFlow.
    from workbench.models.source_building import check_weights, outlined_model

    found = _described(outlined_model(source, trust=trust), source)
    check_weights(source, trust=trust)
    return found


def _described(model: Any, source: ModelSource) -> SourceModel:
    import keras

    from ipu_runtime.engine.describe.keras_reader import read_graph
    from ipu_runtime.engine.describe.model_graph import (
        model_graph,
        runs_as_written,
        traced_network,
    )
    from ipu_runtime.engine.describe.output_activations import output_activations

    whole = runs_as_written(model)
    network = model if whole else None
    if network is None:
        if not source.input_shape:
            raise SourceError(
                f"{source.text} is a subclass of Model, whose inputs are not known",
                "say the shape of a sample with model.input_shape",
            )
        symbol = keras.Input(source.input_shape)
        with keras.StatelessScope(initialize_variables=False):
            try:
                network = traced_network(model, symbol)
            except Exception as error:  # `call` may do anything
                return _as_one_layer(model, symbol, source, error)
    graph = model_graph(network)
    for symbol in graph.network.inputs:
        if symbol.dtype == "string":
            text = f"{symbol.name} takes texts, which the device has none of"
            hint = "look words up where the data are made"
            raise SourceError(f"{source.text}: {text}", hint)
        if None in symbol.shape[1:]:
            shape = ", ".join(str(extent) for extent in symbol.shape[1:])
            hint = "the device needs every extent: say it with model.input_shape"
            if source.is_code:
                hint += f", which {source.function} has to take as input_shape"
            raise SourceError(f"{source.text} leaves its input open: {shape}", hint)
    read = read_graph(graph, str(model.compute_dtype))
    inputs, outputs = graph.network.inputs, graph.network.outputs
    ends = _facts(outputs, _output_names(model, outputs), graph.network.output)
    activations = zip(ends, output_activations(graph), strict=True)
    return SourceModel(
        spec=read.spec,
        problems=read.problems,
        inputs=_facts(inputs, graph.input_names, graph.network.input),
        outputs=tuple(replace(end, activation=name) for end, name in activations),
        named_inputs=isinstance(graph.network.input, dict),
        named_outputs=isinstance(graph.network.output, dict),
        one_block=not whole,
    )


def _as_one_layer(
    model: Any, symbol: Any, source: ModelSource, reason: Exception
) -> SourceModel:
    """Return a model that does in `call` what has no symbols, such as `add_loss`."""
    from ipu_runtime.engine.describe.keras_reader import read_as_one_layer
    from ipu_runtime.engine.describe.output_activations import last_activation
    from ipu_runtime.engine.describe.repeatable_call import call_of_model

    try:
        call = call_of_model(model, symbol)
        spec = read_as_one_layer(model, symbol)
    except ValueError as error:
        text = f"{source.text} cannot be called on samples of {source.input_shape}"
        raise SourceError(f"{text}: {telling_line(reason)}") from error
    names = [f"output_{number}" for number in range(len(call.outputs))]
    outputs = tuple(
        TensorFacts(
            name,
            _sample_shape(end),
            str(end.dtype),
            last_activation(call, number)[0],
        )
        for number, (name, end) in enumerate(zip(names, call.outputs, strict=True))
    )
    entry = TensorFacts("input_0", _sample_shape(symbol), str(symbol.dtype))
    return SourceModel(spec, (), (entry,), outputs, one_block=True)


def _output_names(model: Any, outputs: Sequence[Any]) -> Sequence[str]:
    names = list(getattr(model, "output_names", ()) or ())
    known = len(names) == len(outputs)
    return names if known else [f"output_{i}" for i in range(len(outputs))]


def _facts(
    symbols: Sequence[Any], names: Sequence[str], structure: Any
) -> tuple[TensorFacts, ...]:
    if isinstance(structure, dict):
        # Keras flattens dictionaries in the order of their keys.
        names = sorted(structure)
    return tuple(
        TensorFacts(name, _sample_shape(symbol), str(symbol.dtype))
        for symbol, name in zip(symbols, names, strict=True)
    )


def _sample_shape(symbol: Any) -> tuple[int, ...]:
    return tuple(-1 if extent is None else int(extent) for extent in symbol.shape[1:])
