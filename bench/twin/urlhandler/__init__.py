"""pyserial looks here for the handler of ``twin://``."""
