"""The SQLite store.

`store` and `feed` implement the protocols, `connection` shares one database between them, and `sql` has the statements.
"""
