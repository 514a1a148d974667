"""The files of DataDir except the journal: SQLite files with seals, and lock files."""
