"""The snapshot: reads the rows from before the export, table by table, while changes keep flowing."""
