"""Open tables: the current state of the lake's tables as Delta tables, which other engines read.

The relay is the only writer of such a table. Its log has what is needed to continue after a kill; the lake's log stays
the source of truth, and a deleted table is made again from it.
"""
