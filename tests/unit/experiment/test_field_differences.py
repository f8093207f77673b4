"""Which settings of experiments differ."""

from __future__ import annotations

from workbench.editing.draft import Draft
from workbench.experiment.field_differences import (
    FieldDifference,
    differences,
    flatten,
)
from workbench.experiment.overrides import set_value
from workbench.experiment.preset_store import load_preset
from workbench.experiment.tables import spec_to_tables
from workbench.experiment.validation import validate
from workbench.services.session import changes_from, take_over

_OPTIONS = "ipu.matmuls.poplar_options"


def test_only_differing_fields_are_kept_and_defaults_count_as_set() -> None:
    # 32 is the declared default of data.batch_size.
    first = {"data": {"batch_size": 32, "labels": "sparse"}, "ipu": {"a": {"b": 1}}}
    second = {"data": {"labels": "categorical"}, "ipu": {"a": {"b": 2}}}

    found = differences(first, second)

    assert {item.path: item.values for item in found} == {
        "data.labels": ("sparse", "categorical"),
        "ipu.a.b": (1, 2),
    }


def test_layers_are_compared_one_by_one() -> None:
    tables = {"model": {"layers": [{"kind": "Dense", "units": 3}, {"kind": "Flatten"}]}}
    assert flatten(tables) == {
        "model.layers[0].kind": "Dense",
        "model.layers[0].units": 3,
        "model.layers[1].kind": "Flatten",
    }


def test_layers_that_differ_stand_behind_the_fields() -> None:
    dense = {"kind": "Dense", "units": 3}
    first = {"model": {"layers": [dense, {"kind": "Flatten"}]}, "train": {"epochs": 1}}
    second = {"model": {"layers": [{**dense, "units": 4}]}, "train": {"epochs": 2}}

    assert differences(first, second) == (
        FieldDifference("train.epochs", (1, 2)),
        FieldDifference("model.layers[0].units", (3, 4)),
        FieldDifference("model.layers[1].kind", ("Flatten", None)),
    )


def test_words_that_describe_an_experiment_count_where_they_are_asked_for() -> None:
    first, second = {"experiment": {"title": "one"}}, {"experiment": {"title": "two"}}

    assert differences(first, second) == ()
    assert differences(first, second, described=True) == (
        FieldDifference("experiment.title", ("one", "two")),
    )


def test_a_table_of_options_is_one_value_however_it_is_written() -> None:
    options = {"partialsType": "half"}
    nested = {"ipu": {"matmuls": {"poplar_options": options}}}
    dotted = {"ipu": {"matmuls.poplar_options": options}}

    assert flatten(nested) == flatten(dotted) == {_OPTIONS: options}
    assert differences(nested, dotted) == ()
    assert differences(nested, {}) == (FieldDifference(_OPTIONS, (options, {})),)


def test_options_of_a_run_are_taken_over_into_the_form() -> None:
    preset = load_preset("mnist-ipu")
    spec, _ = validate(set_value(preset.tables, _OPTIONS, {"partialsType": "half"}))
    assert spec is not None
    draft = Draft(preset)

    changes = changes_from(preset, spec_to_tables(spec))
    assert changes is not None
    take_over(draft, changes)

    assert draft.changes() == {_OPTIONS: {"partialsType": "half"}}
    assert draft.spec == spec
