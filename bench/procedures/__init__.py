"""Procedures: what is commanded and what is recorded. No analysis here; see ``bench.identify``.

>>> path = perform(station, procedure, specimen, operator="A. Example", results_dir="results")    # doctest: +SKIP
"""

from bench.procedures.perform import PROCEDURES, Procedure, perform

__all__ = ["PROCEDURES", "Procedure", "perform"]
