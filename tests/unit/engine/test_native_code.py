"""A kernel is compiled at first use and then loaded from the cache folder, which is its user's alone."""

import ctypes
import os

import pytest

from forerun.engine import native_code
from forerun.engine.native_code import Kernel

pytestmark = pytest.mark.skipif(native_code.find_compiler(os.environ) is None, reason="no C++ compiler")


def test_what_is_compiled_is_loaded_whatever_its_users_umask(tmp_path, monkeypatch, lax_umask):
    monkeypatch.setenv("FORERUN_CACHE", str(tmp_path / "cache"))
    sources = tmp_path / "sources"
    sources.mkdir()
    (sources / "main.cpp").write_text('extern "C" __attribute__((visibility("default"))) int seven() { return 7; }')
    library = native_code.build(Kernel(sources, "main.cpp", "the kernel", "do without"))
    assert ctypes.CDLL(str(library)).seven() == 7
