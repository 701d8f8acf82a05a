"""From recorded channels to parameters with uncertainties; pure functions of arrays."""
