"""Bot that is killed again and again while it makes offers, and a checker of the offers that the exchange received."""
