"""What tests of the engine share."""

import os

import pytest


@pytest.fixture
def lax_umask():
    """That of users whose files their own group may write."""
    before = os.umask(0o002)
    yield
    os.umask(before)
