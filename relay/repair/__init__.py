"""`relay repair`: what is damaged in the journal, read again from the source's binlog and put back in its place."""
