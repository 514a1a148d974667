"""The lake: every change as typed Parquet, and the log of commits that says which files count."""
