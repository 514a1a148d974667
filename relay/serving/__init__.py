"""Parts of a server process: connections, logins, admin commands, replies that need Python, TLS, link to the broker."""
