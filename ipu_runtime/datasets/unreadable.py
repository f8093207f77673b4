"""What reading an archive of arrays may raise when it is damaged or hostile."""

from __future__ import annotations

import zipfile
import zlib

UNREADABLE: tuple[type[Exception], ...] = (
    zipfile.BadZipFile,
    zlib.error,
    OSError,
    EOFError,
    ValueError,
    LookupError,
    TypeError,
    AttributeError,
    SyntaxError,
    OverflowError,
    MemoryError,
    RuntimeError,
)
"""RuntimeError is for encrypted files, unknown ways of packing and endless nesting."""
