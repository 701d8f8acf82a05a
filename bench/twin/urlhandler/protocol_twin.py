"""Found by its name when pyserial opens a ``twin://`` URL."""

from bench.twin.serial_client import TwinSerial as Serial

__all__ = ["Serial"]
