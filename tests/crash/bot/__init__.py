"""A bot that is killed again and again while it makes offers, and a judge of what the exchange saw of it."""
