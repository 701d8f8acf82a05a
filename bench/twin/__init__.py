"""A simulated lab in a process of its own: it speaks the devices' wire protocols and keeps the truth to itself."""
