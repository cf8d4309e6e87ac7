"""Tables from files: columns with kinds and formats, and the problem made of them.

Messages name the options of the command line, which uses this package.
"""

from shiftune.tables._files import (
    SiteFiles,
    TableFile,
    files_at,
    read_as_written,
    read_file,
    separator_of,
)

__all__ = [
    "SiteFiles",
    "TableFile",
    "files_at",
    "read_as_written",
    "read_file",
    "separator_of",
]
