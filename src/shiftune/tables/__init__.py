"""From a file to a problem: the table is read, its columns and labels are made sense of."""

from shiftune.tables.files import read_file
from shiftune.tables.site_table import SiteTable, site_table

__all__ = ["SiteTable", "read_file", "site_table"]
