"""What reading an archive may raise when it is damaged or hostile, and may not cost."""

from __future__ import annotations

import copy
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

_BOUNDED = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)


def check_packing(archive: zipfile.ZipFile) -> None:
    """Refuse an archive of which reading a few bytes may unpack gigabytes.

    `zipfile` unpacks DEFLATE by as much as is asked for, but BZIP2 and LZMA by what it
    has read of the file (`ZipExtFile._read1`): 3 KB of BZIP2 are 3 GiB of zeros.
    """
    for member in archive.infolist():
        if member.compress_type not in _BOUNDED:
            raise ValueError(f"{member.filename} is packed by other than DEFLATE")


def content_of(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> bytes:
    """Return what a member unpacks to; refused if its entry says another size.

    `ZipFile.read` unpacks all that is there, and then cuts it to that size.
    """
    longer = copy.copy(member)
    longer.file_size += 1
    with archive.open(longer) as stream:
        content = stream.read(longer.file_size)
    if len(content) != member.file_size:
        raise ValueError(f"{member.filename} is not of the size that its entry says")
    return content
