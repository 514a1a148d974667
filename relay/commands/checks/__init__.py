"""The checks of `relay check`: this machine, and the hosts of the source."""
