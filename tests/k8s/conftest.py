"""Overlays, rendered once; a test that breaks one works on a copy."""

import copy
from pathlib import Path

import pytest

from scripts.k8s_check.render import render

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def root():
    return ROOT


@pytest.fixture(scope="session")
def rendered():
    """Overlay → what kubectl makes of it."""
    known = {}

    def get(overlay):
        if overlay not in known:
            known[overlay] = render(ROOT / "k8s" / "overlays" / overlay)
        return known[overlay]

    return get


@pytest.fixture
def overlay(rendered):
    """A rendering that may be broken."""
    return lambda name: copy.deepcopy(rendered(name))
