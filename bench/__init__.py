"""Hardware-in-the-loop test bench for the force control of medical robots."""

__version__ = "0.1.0"
