"""A store in a PostgreSQL database, which the replicas of a bot share (extra `postgres`).

`store` opens it, and `fleet` has the replicas: their leases, seats, term and work. `history` recognises a database that
has lost commits. `feed_sql` has the statements of a feed, `schema` the tables and their migration, and `copy` moves a
file into the database.
"""
