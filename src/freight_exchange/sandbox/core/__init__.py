"""The exchange itself: a pure function of a call, a time and a state."""
