"""Programs that the make targets run."""
