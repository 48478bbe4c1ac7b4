"""Records of the exchange as JSON, with the quirks of a profile."""
