"""Parts of a server process: its peers, who may do what, answers that need Python, TLS, the way to the broker."""
