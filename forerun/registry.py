"""Lazy lookup of extension points: a literal table of names, imported only when one is asked for."""

import importlib
from collections.abc import Mapping
from typing import Any

from forerun.errors import ConfigError


def load(table: Mapping[str, str], name: str, kind: str) -> Any:
    """Returns the object that `table` gives for `name` as "module:attribute".

    Raises ConfigError that lists the known names where `name` is not among them.
    """
    if name not in table:
        raise ConfigError(f"unknown {kind} {name!r}; known: {', '.join(sorted(table))}")
    module, attribute = table[name].split(":")
    return getattr(importlib.import_module(module), attribute)
