"""Send path of a call: `layers` composes it, and `network` sends the bytes."""
