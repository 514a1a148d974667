"""The container image and what deploys it: `make test-image`."""
