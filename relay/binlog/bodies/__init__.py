"""Bodies of events, read into the structs of `relay.binlog.events`: a function an event, a table of them a module."""
