"""Makes the bench's pytest plug-in available in a checkout, installed or not.

An installed bench is registered by its entry point ``forcebench`` before this file is read; the check below keeps it
from being registered twice, which pytest refuses. A lab's repository needs nothing of this when the bench is installed.
"""

from __future__ import annotations

import pytest


def pytest_addoption(parser: pytest.Parser, pluginmanager: pytest.PytestPluginManager) -> None:
    if pluginmanager.has_plugin("forcebench") or pluginmanager.is_blocked("forcebench"):
        return
    try:
        from fixtures import plugin
    except ModuleNotFoundError as error:
        raise pytest.UsageError(
            f"the bench cannot be imported ({error}); run 'pip install -e .' in the checkout, or set PYTHONPATH to it"
        ) from None
    pluginmanager.register(plugin, "forcebench")
    plugin.add_options(parser)
