"""The names of rows without FULL metadata, held against those that the same rows have with it: make test-names."""
