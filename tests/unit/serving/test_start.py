"""Threads of an engine: as many as are asked for, else at most one a core and at most as many as are allowed."""

import pytest

from forerun.serving import start
from forerun.serving.settings import ServiceConfig


@pytest.mark.parametrize(("threads", "max_threads", "used"), [(0, 0, 8), (0, 2, 2), (0, 99, 8), (3, 2, 3)])
def test_threads(monkeypatch, tmp_path, threads, max_threads, used):
    monkeypatch.setattr(start, "num_cores", lambda: 8)
    monkeypatch.setattr(start.torch_setup, "prepare", lambda num_threads: None)
    settings = start.prepare(ServiceConfig(threads=threads, max_threads=max_threads), tmp_path, "model")
    assert settings.num_threads == used
    assert settings.adapts_threads == (threads == 0)
