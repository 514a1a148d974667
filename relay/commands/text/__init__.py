"""What commands print: documents as text for a terminal. Pure: structs in, text out."""
