"""The monitoring page: files that relay.monitoring.http serves, `index.html` as `/`, all of them below `/static/`."""
