"""Files of tables that are not text: compressed ones, and those of Arrow."""

import gzip
import io
from typing import Any, NoReturn

from fairbench.common.errors import UsageError

GZIP = b"\x1f\x8b"
PARQUET = b"PAR1"
FEATHER = (b"ARROW1", b"FEA1")
ZIP = b"PK\x03\x04"
PICKLE = (b"\x80\x02", b"\x80\x03", b"\x80\x04", b"\x80\x05")
"""The bytes with which files of each kind begin."""


def unpacked(name: str, content: bytes) -> tuple[str, bytes]:
    """The name and the content of a file that is compressed by gzip, without the compression; others as they are."""
    if not content.startswith(GZIP):
        return name, content
    try:
        return name.removesuffix(".gz"), gzip.decompress(content)
    except (OSError, EOFError) as error:
        raise UsageError(f"{name} is not whole: {error}; copy it again") from None


def arrow_table(name: str, content: bytes) -> Any:
    """The table of a Parquet or a Feather file; None for another file.

    Raises:
        UsageError: the file is damaged.
    """
    if not content.startswith((PARQUET, *FEATHER)):
        return None
    from pyarrow import ArrowException, feather, parquet

    try:
        if content.startswith(PARQUET):
            return parquet.read_table(io.BytesIO(content))
        return feather.read_table(io.BytesIO(content))
    except (ArrowException, OSError) as error:
        raise UsageError(f"{name} cannot be read: {error}; write it again") from None


def refuse(name: str, content: bytes) -> NoReturn:
    """Raise the error for a binary file that is not read, with the way out for its kind."""
    small = name.casefold()
    if content.startswith(ZIP) and small.endswith((".xlsx", ".xlsm", ".ods")):
        raise UsageError(f"{name} is a spreadsheet; save its sheet as CSV in UTF-8, and give that file")
    if content.startswith(ZIP):
        raise UsageError(f"{name} is an archive; unpack it, and give the file with the table")
    if content.startswith(PICKLE) or small.endswith((".pkl", ".pickle", ".pt", ".pth")):
        raise UsageError(
            f"{name} is a pickle, which may run any code when it is read; in Python, "
            "fb.verdicts(pandas.read_pickle(...)) if you trust it"
        )
    raise UsageError(f"{name} is not text; save it as CSV in UTF-8")
