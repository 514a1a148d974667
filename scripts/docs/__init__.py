"""The documentation site: `make docs` builds it with Sphinx."""
