"""A store in a PostgreSQL database, which the replicas of a bot share (extra `postgres`)."""
