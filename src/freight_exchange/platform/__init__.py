"""Ground floor of the package: the root of the errors, clocks, file locks and terminal text."""
