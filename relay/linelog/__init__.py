"""The line log of `[Logger]`: a line for each changed row, in files by date (docs/csv-log.md)."""
