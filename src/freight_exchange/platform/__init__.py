"""What every other package may use: the root of the errors, clocks, file locks and terminal text."""
