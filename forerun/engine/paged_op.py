"""Attention as one opaque operator, so that a compiled graph can call back into the engine.

An operator takes tensors and numbers alone: a step travels as the address of its StepCall, under which it is kept here
while it runs. A graph that was compiled ahead calls C (attention/native/operator.h), which attends itself where the
StepCall says how, and comes here where it does not.
To the compiler the operator is a pure function: it may not be doubled or left out, since its output is used once, and
what it writes into the cache is read by itself alone.
"""

import ctypes
import functools
import weakref
from dataclasses import dataclass, field
from typing import Any

import torch

from forerun.engine.attention.base import AttentionBackend, AttentionOptions
from forerun.engine.attention.native_library import StepCall
from forerun.engine.attention.paged_native import NativePlan, step_call
from forerun.engine.kv_cache import KvCache

_steps: "weakref.WeakValueDictionary[int, PagedStep]" = weakref.WeakValueDictionary()

SCHEMA = (
    "paged_attention(Tensor query, Tensor key, Tensor value, Tensor step, int layer, float scale, "
    "int sliding_window, float softcap, Tensor? sinks) -> Tensor"
)


@dataclass(slots=True, weakref_slot=True, eq=False)
class PagedStep:
    """One step's context. slots: `[num_rows] int64`; rows of the forward beyond them are padding.

    layers_seen: where not None, Python attends, and it holds the layers that did. handle: what stands for the step
    in the operator's arguments.
    """

    cache: KvCache
    backend: AttentionBackend
    plan: Any
    slots: torch.Tensor
    layers_seen: set[int] | None = None
    call: StepCall = field(init=False)
    handle: torch.Tensor = field(init=False)

    def __post_init__(self) -> None:
        in_c = self.layers_seen is None and isinstance(self.plan, NativePlan)
        self.call = step_call(self.plan, self.cache, self.slots) if in_c else StepCall()
        address = ctypes.addressof(self.call)
        self.handle = torch.tensor(address)
        _steps[address] = self


@functools.cache
def register() -> object:
    """Defines torch.ops.forerun.paged_attention; what is returned keeps it defined, here as long as the process."""
    library: Any = torch.library.Library("forerun", "DEF")  # type: ignore[no-untyped-call]
    library.define(SCHEMA)
    library.impl("paged_attention", _attend, "CompositeExplicitAutograd")
    torch.library.register_fake("forerun::paged_attention", _shape, lib=library)
    return library


def operator() -> Any:
    """As it stands in graphs. Needs `register`."""
    return torch.ops.forerun.paged_attention.default


def _attend(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    step: torch.Tensor,
    layer: int,
    scale: float,
    sliding_window: int,
    softcap: float,
    sinks: torch.Tensor | None,
) -> torch.Tensor:
    """query `[1, H, rows, D]`, key and value `[1, KV, rows, D]` → `[1, rows, H, D]`; 0 for no window, no softcap."""
    paged = _steps[int(step)]
    num_rows = len(paged.slots)
    rows, keys, values = (side[0].transpose(0, 1)[:num_rows] for side in (query, key, value))
    paged.cache.write(layer, paged.slots, keys, values)
    options = AttentionOptions(scale, sliding_window or None, softcap or None, sinks)
    attended = paged.backend.attend(rows, paged.cache.layers[layer], paged.plan, options)
    if paged.layers_seen is not None:
        paged.layers_seen.add(layer)
    if padding := query.shape[2] - num_rows:
        attended = torch.cat([attended, attended.new_zeros(padding, *attended.shape[1:])])
    return attended[None].contiguous()


def _shape(query: torch.Tensor, *others: Any) -> torch.Tensor:
    return query.new_empty(1, query.shape[2], query.shape[1], query.shape[3])
