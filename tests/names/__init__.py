"""Column names without FULL metadata, compared with those of the same rows with it: make test-names."""
