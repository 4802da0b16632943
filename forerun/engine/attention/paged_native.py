"""The fast CPU backend: a kernel that walks the block tables itself, where paged_cpu gathers their blocks first.

A row's output is the same bit by bit whatever stands beside it in the batch, however its sequence is cut into steps,
and with any number of threads: see native/attend.h. bf16 scores and sums are float32, weights are rounded to bf16
where the machine multiplies bf16.
"""

import ctypes
from array import array
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from forerun.engine.attention import native_library
from forerun.engine.attention.base import AttentionOptions, LayerCache, Segment
from forerun.engine.attention.native_library import Layer, Step, StepCall
from forerun.engine.kv_cache import KvCache
from forerun.errors import ConfigError

DTYPES = (torch.float32, torch.bfloat16)
MAX_HEAD_DIM = 256
HEAD_DIM_STEP = 8

BRIEF = 1 << 17
"""Numbers of keys that a call reads in about 50 microseconds, for which other threads may wait."""

_ROWS_PER_READ = 8  # so many more rows cost what reading the keys did


@dataclass(frozen=True, slots=True)
class NativePlan:
    """step points into segments `[num_segments, 4] int32` and blocks `[sum of table lengths] int32`.

    num_keys: how many a key head reads; a sequence with many rows counts as often as its keys are multiplied.
    """

    step: Step
    segments: "array[int]"
    blocks: "array[int]"
    num_rows: int
    num_keys: int


class PagedNative:
    """Raises ConfigError where the kernel cannot be compiled."""

    name = "paged_native"

    def __init__(self) -> None:
        self._library = native_library.load()

    def plan(self, segments: Sequence[Segment], block_size: int, device: torch.device) -> NativePlan:
        rows, blocks = array("i"), array("i")
        for segment in segments:
            rows.extend((segment.start, segment.query_len, segment.context_len, len(blocks)))
            blocks.extend(segment.block_table[: -(-segment.context_len // block_size)])
        threads = torch.get_num_threads()
        step = Step(
            segments=rows.buffer_info()[0],
            blocks=blocks.buffer_info()[0],
            parallel=self._library.parallel if threads > 1 else None,
            num_segments=len(segments),
            block_size=block_size,
            num_threads=threads,
        )
        num_rows = sum(segment.query_len for segment in segments)
        num_keys = sum(segment.context_len * (1 + segment.query_len // _ROWS_PER_READ) for segment in segments)
        return NativePlan(step, rows, blocks, num_rows, num_keys)

    def attend(
        self, query: torch.Tensor, cache: LayerCache, plan: NativePlan, options: AttentionOptions
    ) -> torch.Tensor:
        check(query, cache)
        query = query.contiguous()
        num_rows, num_heads, head_dim = query.shape
        num_kv_heads = cache.keys.shape[2]
        # Rows of no segment are padding, which nobody reads but which other layers compute with.
        output = torch.empty_like(query) if num_rows == plan.num_rows else torch.zeros_like(query)
        sinks = None if options.sinks is None else options.sinks.float().contiguous()
        layer = Layer(
            query.data_ptr(),
            output.data_ptr(),
            cache.keys.data_ptr(),
            cache.values.data_ptr(),
            None if sinks is None else sinks.data_ptr(),
            options.scale,
            options.softcap or 0.0,
            options.sliding_window or 0,
            num_heads,
            num_kv_heads,
            head_dim,
        )
        brief = plan.num_keys * num_kv_heads * head_dim <= BRIEF
        attend = self._library.attend_briefly if brief else self._library.attend
        attend(ctypes.byref(plan.step), ctypes.byref(layer), query.element_size())
        return output


def step_call(plan: NativePlan, cache: KvCache, slots: torch.Tensor) -> StepCall:
    """What a compiled graph needs to write keys and values and to attend without Python.

    slots: `[num_rows] int64`. All three must outlive it.
    """
    keys = cache.layers[0].keys
    if cache.addresses is None or keys.dtype not in DTYPES or len(slots) != plan.num_rows:
        return StepCall()
    return StepCall(
        ctypes.addressof(plan.step),
        *(sides.buffer_info()[0] for sides in cache.addresses),
        slots.data_ptr(),
        len(slots),
        *keys.shape[2:],
        keys.element_size(),
    )


def serves(head_dim: int) -> bool:
    """Whether it takes heads of this size, and this machine has, or can compile, the kernel."""
    return native_library.serves() and head_dim % HEAD_DIM_STEP == 0 and head_dim <= MAX_HEAD_DIM


def check(query: torch.Tensor, cache: LayerCache) -> None:
    """Raises ConfigError for tensors that the kernel does not read."""
    if query.dtype not in DTYPES or cache.keys.dtype != query.dtype or cache.values.dtype != query.dtype:
        raise ConfigError(f"paged_native attends in float32 or bfloat16, not {query.dtype} over {cache.keys.dtype}")
    if query.shape[2] % HEAD_DIM_STEP or query.shape[2] > MAX_HEAD_DIM:
        raise ConfigError(f"paged_native takes heads of 8, 16, … {MAX_HEAD_DIM} numbers, not of {query.shape[2]}")
    if not (cache.keys.is_contiguous() and cache.values.is_contiguous()):
        raise ConfigError("paged_native reads a contiguous cache")
