"""Tables from files, which the command line names by its options."""

from shiftune.tables._files import SiteFiles, TableFile, files_at, read_as_written, read_file

__all__ = ["SiteFiles", "TableFile", "files_at", "read_as_written", "read_file"]
