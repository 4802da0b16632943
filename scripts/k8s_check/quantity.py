"""Kubernetes' quantities as numbers."""

import re

_SUFFIXES = {"": 1.0, "m": 1e-3, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12} | {
    "Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30, "Ti": 2.0**40
}  # fmt: skip


def amount(text: str | int | float) -> float:
    """2Gi → 2147483648.0. Raises ValueError for what is no quantity."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([A-Za-z]*)", str(text))
    if match is None or match.group(2) not in _SUFFIXES:
        raise ValueError(f"{text!r} is no quantity")
    return float(match.group(1)) * _SUFFIXES[match.group(2)]
