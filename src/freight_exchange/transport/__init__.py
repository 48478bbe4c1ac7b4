"""Send path of a call: `send` composes its layers, and `network` sends it."""
