"""From a file to a problem: the table is read, its columns and labels are made sense of.

The command line is what this is for, so its messages name the options there.
"""

from shiftune.tables.files import read_as_written, read_file
from shiftune.tables.schema import Schema
from shiftune.tables.site_table import SiteTable, site_table

__all__ = ["Schema", "SiteTable", "read_as_written", "read_file", "site_table"]
