"""`relay repair`: reads damaged parts of the journal again from the source's binlog and puts them back in place."""
