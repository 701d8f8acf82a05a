"""Physics: pure functions of arrays, with units, signs and sources."""
