"""The benchmark: `make bench` prints ratios from one run. See bench/__main__.py."""
