"""Writing TOML that reads back as the same tables."""

from __future__ import annotations

import tomllib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workbench.experiment.toml_text import to_toml

_scalars = (
    st.booleans()
    | st.integers(-(2**62), 2**62)
    | st.floats(allow_nan=False)
    | st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
)
_values = st.recursive(
    _scalars,
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text("abc .\"'-_é"), inner)
    ),
    max_leaves=12,
)


@given(st.dictionaries(st.text("abc-_. é", min_size=1), _values, max_size=5))
def test_whatever_is_written_reads_back(tables: dict[str, Any]) -> None:
    assert _without_empty(tomllib.loads(to_toml(tables))) == _without_empty(tables)


def _without_empty(value: Any) -> Any:
    """Leave out empty tables, which have no values to keep."""
    if isinstance(value, dict):
        kept = {key: _without_empty(item) for key, item in value.items()}
        return {key: item for key, item in kept.items() if item != {}}
    if isinstance(value, list):
        return [_without_empty(item) for item in value]
    return value


def test_layers_become_one_table_each() -> None:
    text = to_toml({"model": {"dtype": "float32", "layers": [{"kind": "Flatten"}]}})
    assert text == (
        '[model]\ndtype = "float32"\n\n[[model.layers]]\nkind = "Flatten"\n'
    )


def test_what_toml_cannot_hold_is_refused() -> None:
    with pytest.raises(TypeError, match="None"):
        to_toml({"a": {"b": None}})
