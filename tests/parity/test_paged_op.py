"""The operator as compiled graphs call it, in C, against the same operator in Python: outputs and cache, bit by bit."""

import ctypes

import pytest
import torch

from forerun.engine import attention, paged_attention
from forerun.engine.attention import native_library, paged_native
from forerun.engine.attention.base import Segment
from forerun.engine.graph_library import capsule_of
from forerun.engine.kv_cache import KvCache, KvShape
from forerun.engine.paged_op import PagedStep

_pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)
pointer_in = _pointer(("PyCapsule_GetPointer", ctypes.pythonapi))

CPU = torch.device("cpu")
HEADS, KV_HEADS, HEAD_DIM, BLOCK = 6, 2, 32, 16
SEGMENTS = (Segment(0, 1, 20, [3, 1]), Segment(1, 5, 40, [0, 4, 2]), Segment(6, 3, 3, [5]))
ROWS, PADDED = 9, 12
LAYER = 1


@pytest.fixture(scope="module")
def operator():
    if not paged_native.serves(HEAD_DIM):
        pytest.skip("no C++ compiler")
    paged_attention.register()
    native_library.load()
    return ctypes.CDLL(native_library.native_code.build(native_library.kernel())).aoti_torch_cpu_paged_attention


def in_c(operator, query, key, value, step, options):
    """Tensors go in by pointers that the callee does not keep, and one comes out that is the caller's."""
    tensors = [query, key, value, step, *([] if options["sinks"] is None else [options["sinks"]])]
    capsules = torch._C._aoti.unsafe_alloc_void_ptrs_from_tensors(tensors)
    handles = [ctypes.c_void_p(pointer_in(found, None)) for found in capsules]
    sinks = ctypes.byref(handles[4]) if len(handles) > 4 else None
    output = ctypes.c_void_p()
    error = operator(
        *handles[:4],
        ctypes.c_int64(LAYER),
        ctypes.c_double(options["scale"]),
        ctypes.c_int64(options["window"]),
        ctypes.c_double(options["softcap"]),
        sinks,
        ctypes.byref(output),
    )
    torch._C._aoti.alloc_tensors_by_stealing_from_void_ptrs(capsules)
    if error:
        raise RuntimeError("the operator failed")
    (result,) = torch._C._aoti.alloc_tensors_by_stealing_from_void_ptrs([capsule_of(output, None, None)])
    return result


def in_python(query, key, value, step, options):
    names = ("scale", "window", "softcap", "sinks")
    return torch.ops.forerun.paged_attention(query, key, value, step, LAYER, *(options[name] for name in names))


def options_with(features):
    generator = torch.Generator().manual_seed(1)
    sinks = torch.randn(HEADS, generator=generator)
    return {
        "scale": HEAD_DIM**-0.5,
        "window": 11 if features == "window" else 0,
        "softcap": 3.0 if features == "softcap" else 0.0,
        "sinks": {
            "sinks": sinks,
            "bf16 sinks": sinks.bfloat16(),
            "fp16 sinks": sinks.half(),
            "strided sinks": sinks.repeat_interleave(2)[::2],
        }.get(features),
    }


class House:
    """A cache full of numbers, and rows for it."""

    def __init__(self, dtype, backend="paged_native", num_rows=PADDED, layout="by row"):
        generator = torch.Generator().manual_seed(0)
        self.cache = KvCache(KvShape(3, KV_HEADS, HEAD_DIM, dtype), 8, BLOCK, CPU)
        for layer in self.cache.layers:
            for side in (layer.keys, layer.values):
                side.copy_(torch.randn(side.shape, generator=generator))
        self.backend = attention.create(backend)
        sides = (torch.randn(num_rows, heads, HEAD_DIM, generator=generator) for heads in (HEADS, KV_HEADS, KV_HEADS))
        self.rows = [side.to(dtype).transpose(0, 1)[None] for side in sides]
        if layout == "by head":
            self.rows = [side.contiguous() for side in self.rows]
        if layout == "every other number":
            self.rows = [side.repeat_interleave(2, dim=3)[..., ::2] for side in self.rows]

    def step(self, layers_seen=None):
        slots = [
            segment.block_table[place // BLOCK] * BLOCK + place % BLOCK
            for segment in SEGMENTS
            for place in range(segment.context_len - segment.query_len, segment.context_len)
        ]
        plan = self.backend.plan(SEGMENTS, BLOCK, CPU)
        return PagedStep(self.cache, self.backend, plan, torch.tensor(slots), layers_seen)

    def memory(self):
        return torch.stack([torch.stack([layer.keys, layer.values]) for layer in self.cache.layers])


def assert_alike(operator, features="plain", layers_seen=None, **facts):
    ours, other = House(**facts), House(**facts)
    untouched = ours.memory()
    options, step, others = options_with(features), ours.step(layers_seen), other.step()
    output = in_c(operator, *ours.rows, step.handle, options)
    assert torch.equal(output, in_python(*other.rows, others.handle, options))
    assert torch.equal(ours.memory(), other.memory())
    assert not torch.equal(ours.memory(), untouched)
    assert output.shape == (1, ours.rows[0].shape[2], HEADS, HEAD_DIM)
    assert not output[0, ROWS:].any()
    return step


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32], ids=str)
@pytest.mark.parametrize(
    "features", ["plain", "window", "softcap", "sinks", "bf16 sinks", "fp16 sinks", "strided sinks"]
)
def test_c_gives_pythons_bits(operator, features, dtype, monkeypatch):
    house = House(dtype)
    assert house.step().call.step is not None
    assert_alike(operator, features, dtype=dtype)


@pytest.mark.parametrize("layout", ["by head", "every other number"])
def test_rows_may_lie_otherwise(operator, layout):
    assert_alike(operator, dtype=torch.bfloat16, layout=layout)


def test_there_may_be_no_padding(operator):
    assert_alike(operator, dtype=torch.bfloat16, num_rows=ROWS)


@pytest.mark.parametrize("features", ["plain", "sinks"])
def test_python_attends_where_the_backend_is_another(operator, features):
    step = assert_alike(operator, features, dtype=torch.float32, backend="paged_cpu")
    assert step.call.step is None


def test_python_attends_where_layers_are_counted(operator):
    step = assert_alike(operator, dtype=torch.bfloat16, layers_seen=set())
    assert step.layers_seen == {LAYER}


def test_what_fails_in_python_fails_in_c(operator):
    house = House(torch.bfloat16)
    nothing = native_library.StepCall()
    handle = torch.tensor(ctypes.addressof(nothing))
    with pytest.raises(RuntimeError, match="the operator failed"):
        in_c(operator, *house.rows, handle, options_with("plain"))


def test_another_steps_slots_are_noticed(operator):
    """The control of what is compared: one row written elsewhere."""
    ours, other = House(torch.bfloat16), House(torch.bfloat16)
    step, others = ours.step(), other.step()
    step.slots[0] += 1
    options = options_with("plain")
    output = in_c(operator, *ours.rows, step.handle, options)
    assert not torch.equal(output, in_python(*other.rows, others.handle, options))
    assert not torch.equal(ours.memory(), other.memory())
