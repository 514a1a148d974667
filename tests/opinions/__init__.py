"""Compares how other parsers read the corpus of statements with how the relay reads it: make opinions."""
