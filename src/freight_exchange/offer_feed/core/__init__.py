"""Rules of the feed of offers: the changes in a scan, and the proof that an offer is gone. Pure."""
