"""The commands of `relay`, one file per group."""
