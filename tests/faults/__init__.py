"""The suite of faults: what breaks, under load, and the accounts afterwards (`make test-faults`)."""
