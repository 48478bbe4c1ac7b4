"""SQL statements of the SQLite store, and the functions that run them."""
