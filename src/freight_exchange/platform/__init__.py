"""Ground floor of the package: the root of the errors, clocks, file locks, terminal text and the version."""
