"""Shared by the ports: accepting connections, TLS, access rules, and limits on failed logins."""
