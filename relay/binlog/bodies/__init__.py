"""Parsers of event bodies, which return the structs of `relay.binlog.events`.

Each module has a function for each event, and a table of them.
"""
