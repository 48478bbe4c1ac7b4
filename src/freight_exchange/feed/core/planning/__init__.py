"""Planning of scans: their times, their windows, and the order of their pages. Pure."""
