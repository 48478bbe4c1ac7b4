"""Output for people and programs: tables, records, listings, events, and the live view of a watch."""
