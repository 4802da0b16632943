"""Reads a JSON object field by field; each reader names the parameter and the limit when a value is wrong."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from forerun.errors import InvalidRequest
from gateway.api.errors import UnknownParameter


class Fields:
    """An object whose fields are taken one by one; null means absent; `finish` refuses what nobody took."""

    def __init__(self, body: Mapping[str, Any], prefix: str = "") -> None:
        self._left = dict(body)
        self._prefix = prefix

    def raw(self, name: str) -> Any:
        """Returns the value as it came, None where absent."""
        return self._left.pop(name, None)

    def number(self, name: str, default: float, low: float, high: float) -> float:
        """Returns a finite number in [low, high]."""
        value = self.raw(name)
        if value is None:
            return default
        if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
            raise self.invalid(name, f"must be a number from {low:g} to {high:g}")
        return float(value)

    def integer(self, name: str, low: int, high: int) -> int | None:
        """Returns an integer in [low, high], None where absent."""
        value = self.raw(name)
        if value is None:
            return None
        if isinstance(value, float) and math.isfinite(value) and value == int(value):
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            raise self.invalid(name, f"must be an integer from {low} to {high}")
        return value

    def boolean(self, name: str, default: bool = False) -> bool:
        """Returns true or false."""
        value = self.raw(name)
        if value is None:
            return default
        if not isinstance(value, bool):
            raise self.invalid(name, "must be true or false")
        return value

    def string(self, name: str, max_len: int, default: str = "") -> str:
        """Returns a string of at most max_len characters."""
        value = self.raw(name)
        if value is None:
            return default
        if not isinstance(value, str) or len(value) > max_len:
            raise self.invalid(name, f"must be a string of at most {max_len} characters")
        return value

    def one_of(self, name: str, choices: Sequence[str]) -> str | None:
        """Returns one of `choices`, None where absent."""
        value = self.raw(name)
        if value is None:
            return None
        if value not in choices:
            raise self.invalid(name, f"must be one of {', '.join(map(repr, choices))}")
        return str(value)

    def inner(self, name: str) -> "Fields | None":
        """Returns the readers of an object, None where absent."""
        value = self.raw(name)
        if value is None:
            return None
        if not isinstance(value, dict):
            raise self.invalid(name, "must be an object")
        return Fields(value, f"{self._prefix}{name}.")

    def invalid(self, name: str, rule: str) -> InvalidRequest:
        """Returns the error that says what `name` must be."""
        param = self._prefix + name
        return InvalidRequest(f"{param} {rule}", param)

    def finish(self) -> None:
        """Raises UnknownParameter for the first field that is neither taken nor null."""
        for name, value in self._left.items():
            if value is not None:
                param = (self._prefix + name)[:100]
                raise UnknownParameter(f"unknown parameter {param!r}; remove it or check its spelling", param)
