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
from shiftune.tables._schema import Finding, Schema
from shiftune.tables._site_table import SiteTable, TableSettings, site_table

__all__ = [
    "Finding",
    "Schema",
    "SiteFiles",
    "SiteTable",
    "TableFile",
    "TableSettings",
    "files_at",
    "read_as_written",
    "read_file",
    "separator_of",
    "site_table",
]
