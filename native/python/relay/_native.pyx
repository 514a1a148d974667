"""The native core for Python.

Each area has a module in the folder _native beside this file. All modules are linked into one extension, so the
core's exceptions and static variables exist once. This module loads the others from the extension and republishes their
public names.
"""

import sys
from importlib.machinery import ExtensionFileLoader, ModuleSpec

__path__ = []

# Each module comes after those from which it takes C types.
MODULES = (
    "base", "cursor", "packets", "gtids", "journal", "render", "columns", "lines", "usage", "arena", "queue", "serve",
    "poller", "ingest", "intake", "cdc",
)


def _load(name):
    """Loads a module from this extension."""
    loader = ExtensionFileLoader(name, __file__)
    module = loader.create_module(ModuleSpec(name, loader, origin=__file__))
    sys.modules[name] = module
    loader.exec_module(module)
    return module


def _publish(module):
    """Adds the public names that a module defines to this module. Pickles and representations show this module."""
    for name, value in vars(module).items():
        if name.startswith("_") or isinstance(value, type(sys)):
            continue
        home = getattr(value, "__module__", None)
        if home == module.__name__:
            value.__module__ = __name__
        elif home is not None:
            continue
        globals()[name] = value


for _name in MODULES:
    _publish(_load(f"{__name__}.{_name}"))
