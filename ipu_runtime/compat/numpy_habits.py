"""Names that older scripts ask NumPy for."""

from __future__ import annotations

from types import ModuleType

from ipu_runtime.compat.habits import known_by

_PYTHON = {"int": int, "float": float, "complex": complex, "object": object, "str": str}
_RENAMED = {
    "Inf": "inf",
    "NaN": "nan",
    "alltrue": "all",
    "complex_": "complex128",
    "cumproduct": "cumprod",
    "float_": "float64",
    "product": "prod",
    "row_stack": "vstack",
    "sometrue": "any",
    "string_": "bytes_",
    "unicode_": "str_",
}


def accept_numpy_habits(numpy: ModuleType) -> None:
    """Let NumPy answer to names that it had before versions 1.24 and 2."""
    renamed = {older: getattr(numpy, newer) for older, newer in _RENAMED.items()}
    known_by(numpy, _PYTHON | renamed, "np.int")
