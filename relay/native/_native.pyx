# cython: language_level=3, boundscheck=False, wraparound=False, freethreading_compatible=False
# distutils: language = c++
"""The native core's one wrapper: each area's classes stand in a file of its own, included here."""
include "journal.pxi"
include "queue.pxi"
include "render.pxi"
include "columns.pxi"
include "changes.pxi"
include "lines.pxi"
include "serve.pxi"
include "ingest.pxi"
include "usage.pxi"
include "cdc.pxi"
include "cdc_scan.pxi"
