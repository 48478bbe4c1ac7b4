"""What things cost, beside what people would otherwise use: `make bench`."""
