"""One BLAS thread around small fits: on busy cores a second thread stalls for longer than the whole fit takes."""

from __future__ import annotations

from contextlib import AbstractContextManager
from functools import cache
from typing import Any

from threadpoolctl import ThreadpoolController


@cache
def _controller() -> ThreadpoolController:
    import scipy.linalg  # noqa: F401  # scipy brings its own BLAS: load it before the libraries are listed

    return ThreadpoolController()


def single_thread() -> AbstractContextManager[Any]:
    """Context in which BLAS uses one thread; the setting before is restored. Entering costs some 30 µs."""
    limits: AbstractContextManager[Any] = _controller().limit(limits=1, user_api="blas")
    return limits
