"""Rules of the feed of offers: what a scan changes, and when an offer that scans lack is gone. Pure."""
