"""The monitoring page: files that relay.web serves as they are, `index.html` as `/`, all of them below `/static/`."""
