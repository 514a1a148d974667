"""The rows that were there before the export began, fetched table by table while changes keep flowing."""
