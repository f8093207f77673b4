"""What the weights in a model file may unpack to: no more than the model can need.

A few megabytes of a packed file can be gigabytes of zeros. Keras packs nothing, so what
a file unpacks to is its own size; one that somebody has packed may hold what its layers
need, with all that an optimizer keeps of them.
"""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ipu_runtime.datasets.unreadable import UNREADABLE, content_of
from workbench.error_line import telling_line
from workbench.models.model_source import SourceError

_VALUES_PER_WEIGHT = 6
"""The weight itself, and at most five values that an optimizer of Keras has for it."""
_MARGIN_BYTES = 16 * 2**20
"""For names, vocabularies and the structure of files."""
_ARRAYS = (".npz", ".h5")


def check_archive(path: Path, weights_bytes: int) -> None:
    """Refuse a `.keras` file that unpacks to more than its model can need."""
    most = max(path.stat().st_size, _VALUES_PER_WEIGHT * weights_bytes + _MARGIN_BYTES)
    with _explained(path), zipfile.ZipFile(path) as archive:
        members = archive.infolist()
        if (size := sum(member.file_size for member in members)) > most:
            raise _too_much(path, size, most)
        for member in members:
            content = content_of(archive, member)
            if member.filename.endswith(_ARRAYS):
                _check_arrays(path, content)


def check_hdf5(path: Path) -> None:
    """Refuse an HDF5 file whose arrays are larger than itself."""
    with _explained(path):
        _check_arrays(path, path.read_bytes())


@contextmanager
def _explained(path: Path) -> Iterator[None]:
    try:
        yield
    except UNREADABLE as error:
        reason = telling_line(error)
        raise SourceError(f"{path}: its weights cannot be read: {reason}") from error


def _check_arrays(path: Path, content: bytes) -> None:
    # Late, because it takes a moment to load and few models are files with weights.
    import h5py

    wrong: str | None = None
    size = 0

    def look(name: str, link: object) -> str | None:
        """Add an array's size, or return what is wrong with it."""
        nonlocal size
        if isinstance(link, h5py.ExternalLink):
            return f"{name} is in another file"
        item = file.get(name) if isinstance(link, h5py.HardLink) else None
        if not isinstance(item, h5py.Dataset):
            return None
        size += item.nbytes
        if item.external or item.is_virtual:
            return f"{name} is in another file"
        # HDF5 unpacks a chunk to whatever it holds, and looks at its size then.
        packed = item.id.get_create_plist().get_nfilters()
        return f"{name} is packed" if packed else None

    if content.startswith(b"PK"):
        with zipfile.ZipFile(io.BytesIO(content)) as arrays:
            for member in arrays.infolist():
                size += member.file_size
                if member.compress_type != zipfile.ZIP_STORED:
                    wrong = f"{member.filename} is packed"
    else:
        with h5py.File(io.BytesIO(content), "r") as file:
            wrong = file.visititems_links(look)
    if size > len(content) + _MARGIN_BYTES:
        raise _too_much(path, size, len(content))
    if wrong:
        raise ValueError(wrong)


def _too_much(path: Path, size: int, most: int) -> SourceError:
    text = f"{path} unpacks to {size:,} bytes of weights, and needs {most:,} at most"
    return SourceError(text, "save it again with Keras, which packs nothing")
