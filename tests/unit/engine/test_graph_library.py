"""Compiled graphs by their C interface: other threads run meanwhile, and what needs torch's loader keeps it."""

import ctypes
import inspect
import os
import threading
import time

import pytest
import torch
from torch._inductor import aoti_compile_and_package
from torch._inductor.codegen.common import KernelTemplate
from torch._inductor.cpu_vec_isa import VecISA

from forerun.engine import aot, compiled, graph_library, paged_attention
from forerun.engine.attention.native_library import StepCall
from forerun.engine.graph_library import LIBRARY, GraphLibrary
from forerun.errors import ConfigError

pytestmark = [
    pytest.mark.skipif(not compiled.can_compile(), reason="no C++ compiler"),
    pytest.mark.filterwarnings("ignore:.*LeafSpec:FutureWarning"),  # torch's own
]

WIDTH = 512
NUM_PRODUCTS = 12


class Slow(torch.nn.Module):
    def forward(self, numbers, one):
        rows = (numbers[:, None] + numbers + one).cos()
        for _ in range(NUM_PRODUCTS):
            rows = torch.tanh(rows @ rows)
        return rows


class Foreign(torch.nn.Module):
    def forward(self, rows):
        return torch.ops.forerun_test.doubled(rows) + 1


class Counted(torch.nn.Module):
    def forward(self, numbers, one):
        return torch.arange(numbers.shape[0]) * one + numbers


def package(module, example, folder, **dynamic):
    path = folder / compiled.PACKAGE
    with torch.no_grad():
        aoti_compile_and_package(torch.export.export(module, example, **dynamic), package_path=str(path))
    return path


def some_inputs():
    return torch.randint(-100, 100, (WIDTH,)), torch.tensor(3)


@pytest.fixture(scope="module")
def slow(tmp_path_factory):
    """The package and the library of one graph, which runs for a while."""
    folder = tmp_path_factory.mktemp("slow")
    path = package(Slow(), some_inputs(), folder)
    by_torch = torch._inductor.aoti_load_package(str(path))
    library = graph_library.take_out(path)
    assert library == folder / LIBRARY
    assert not path.exists()
    return by_torch, GraphLibrary(library)


class Mallinfo2(ctypes.Structure):
    """glibc's `struct mallinfo2` (malloc.h)."""

    _fields_ = [
        ("others", ctypes.c_size_t * 4),
        ("hblkhd", ctypes.c_size_t),  # by mmap
        ("more", ctypes.c_size_t * 2),
        ("uordblks", ctypes.c_size_t),  # in arenas
        ("rest", ctypes.c_size_t * 2),
    ]


def bytes_in_use():
    """What malloc has given out: resident memory would count what earlier tests freed as there for the taking."""
    try:
        mallinfo2 = ctypes.CDLL(None).mallinfo2
    except AttributeError:
        pytest.skip("no mallinfo2: not glibc 2.33 or newer")
    mallinfo2.restype = Mallinfo2
    info = mallinfo2()
    return info.uordblks + info.hblkhd


def seen_meanwhile(run):
    """How often another thread got to run while `run` did."""
    count, is_over = 0, False

    def look():
        nonlocal count
        while not is_over:
            count += 1
            time.sleep(0.0001)

    thread = threading.Thread(target=look)
    thread.start()
    try:
        before = count
        run()
        return count - before
    finally:
        is_over = True
        thread.join()


def test_it_gives_what_torchs_loader_gives(slow):
    by_torch, library = slow
    inputs = some_inputs()
    assert torch.equal(library(*inputs), by_torch(*inputs))
    assert torch.equal(library(*inputs), by_torch(*inputs))


@pytest.mark.parametrize("numbers", [[], [7], [7, 8], [7, 8, 9]])
def test_short_vectors_are_filled_up_with_zeros(numbers, tmp_path):
    sizes = ({0: torch.export.Dim("n", min=compiled.MIN_SIZE, max=1 << 20)}, None)
    path = package(Counted(), (torch.arange(5), torch.tensor(1)), tmp_path, dynamic_shapes=sizes)
    library = GraphLibrary(graph_library.take_out(path))
    filled_up = numbers + [0] * (compiled.MIN_SIZE - len(numbers))
    expected = [place * 10 + number for place, number in enumerate(filled_up)]
    assert library(torch.tensor(numbers, dtype=torch.long), torch.tensor(10)).tolist() == expected


def test_nothing_that_went_in_or_came_out_is_kept(slow):
    _, library = slow

    def grown_by(keep):
        kept, before = [], bytes_in_use()
        for _ in range(60):
            output = library(*some_inputs())
            kept += [output] if keep else []
        return bytes_in_use() - before

    grown_by(keep=False)
    one = 4 * WIDTH * WIDTH
    assert grown_by(keep=False) < 2 * one
    assert grown_by(keep=True) >= 60 * one, "the control"


def test_other_threads_run_meanwhile(slow):
    _, library = slow
    inputs = some_inputs()
    library(*inputs)
    assert max(seen_meanwhile(lambda: library(*inputs)) for _ in range(5)) >= 5


def test_with_torchs_loader_they_do_not(slow):
    """The control."""
    by_torch, _ = slow
    inputs = some_inputs()
    by_torch(*inputs)
    assert min(seen_meanwhile(lambda: by_torch(*inputs)) for _ in range(5)) <= 1


def test_a_graph_of_operators_without_a_c_name_stays_with_torchs_loader(tmp_path):
    library = torch.library.Library("forerun_test", "DEF")
    library.define("doubled(Tensor rows) -> Tensor")
    library.impl("doubled", lambda rows: rows * 2, "CPU")
    torch.library.register_fake("forerun_test::doubled", torch.empty_like, lib=library)
    path = package(Foreign(), (torch.zeros(4),), tmp_path)
    assert graph_library.take_out(path) == path
    rows = torch.randn(4)
    assert torch.equal(torch._inductor.aoti_load_package(str(path))(rows), rows * 2 + 1)


def test_what_cannot_be_loaded_is_a_config_error(tmp_path):
    (tmp_path / LIBRARY).write_text("no library")
    with pytest.raises(ConfigError, match=r"model\.so cannot be loaded"):
        GraphLibrary(tmp_path / LIBRARY)


class Attending(torch.nn.Module):
    def forward(self, numbers, step):
        rows = numbers.float().view(1, 2, 3, 8)
        return torch.ops.forerun.paged_attention(rows, rows, rows, step, 0, 1.0, 0, 0.0, None)


def test_a_graph_that_fails_is_a_runtime_error(tmp_path, monkeypatch):
    """It attends in Python, which knows no such step."""
    for thing, name in ((os, "cpu_count"), (VecISA, "check_build"), (KernelTemplate, "_template_from_string")):
        monkeypatch.setattr(thing, name, inspect.getattr_static(thing, name))  # compiling sets them
    paged_attention.register()
    numbers = torch.zeros(48, dtype=torch.long)
    path = tmp_path / compiled.PACKAGE
    with torch.no_grad():
        calls = aot.package(torch.export.export(Attending(), (numbers, torch.tensor(0))), path)
    assert calls == ["forerun::paged_attention"]
    compiled.load_kernels(calls)
    library = GraphLibrary(graph_library.take_out(path))
    nothing = StepCall()
    with pytest.raises(RuntimeError, match="the compiled model failed"):
        library(numbers, torch.tensor(ctypes.addressof(nothing)))
