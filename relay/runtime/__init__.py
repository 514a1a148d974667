"""What all processes share: shared memory, messages, status pages, signals, the service manager."""
