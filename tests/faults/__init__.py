"""The fault suite: faults under load, and the accounts afterwards (`make test-faults`)."""
