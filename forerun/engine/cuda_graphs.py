"""Steps that decode, draft or verify as recorded CUDA graphs: hundreds of kernels started by one call.

One recording for each of a few numbers of rows. A step fills the next larger one up with rows that belong to no
sequence and write to the padding block, and with sequences that have no rows.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch

from forerun.engine.attention.base import AttentionBackend, Segment
from forerun.engine.attention.ragged import RaggedPlan
from forerun.engine.batch import Batch
from forerun.engine.forward import Forward
from forerun.engine.kv_cache import KvCache
from forerun.engine.model import LoadedModel
from forerun.engine.paged_op import PagedStep
from forerun.engine.reduction import Fetch
from forerun.engine.runner import Runner
from forerun.engine.scheduler import SHORT
from forerun.engine.upload import upload
from forerun.errors import ConfigError

log = logging.getLogger(__name__)

BACKENDS = ("fa3",)
"""Attention backends whose kernels read a step's shape from the device alone."""

SIZES = (1, 2, 4, 5, 8, 9, 12, 16, 24, 32, 40, 48, 64, 72, 96, 128, 160, 192, 256, 320, 384, 448, 512, 576)
"""Rows of the recordings: what 1 to 64 sequences have with 0, 4 and 8 drafted tokens, and steps between."""

_WARM_UPS = 2  # libraries choose kernels and allocate workspaces in their first calls

Play = Callable[[], torch.Tensor]
Record = Callable[[Play], Play]
"""From a forward over fixed tensors to one that does the same again, with what those hold by then."""


class CudaGraphs:
    """Records on the current device; all recordings share one pool of memory, so only the latest output is valid."""

    def __init__(self) -> None:
        self._pool = torch.cuda.graph_pool_handle()

    def __call__(self, forward: Play) -> Play:
        new_stream: Any = torch.cuda.Stream
        aside = new_stream()
        aside.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(aside):
            for _ in range(_WARM_UPS):
                forward()
        torch.cuda.current_stream().wait_stream(aside)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=self._pool):
            output = forward()

        def replay() -> torch.Tensor:
            graph.replay()
            return output

        return replay


class Inputs:
    """Fixed tensors that every recording reads, large enough for the largest; table `[rows, num_pages]`."""

    def __init__(self, max_rows: int, num_pages: int, cache: KvCache, device: torch.device) -> None:
        self._device = device
        self._block_size = cache.block_size
        self._padding_slot = cache.padding_slot
        self._numbers = torch.zeros(3 * max_rows, dtype=torch.long, device=device)
        self._lengths = torch.zeros(2 * max_rows + 1, dtype=torch.int32, device=device)
        self._table = torch.zeros(max_rows, num_pages, dtype=torch.int32, device=device)
        self.every_row = torch.arange(max_rows, device=device)

    def numbers(self, num_rows: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """input_ids, positions and slots, each `[num_rows]`."""
        ids, positions, slots = self._numbers[: 3 * num_rows].view(3, num_rows)
        return ids, positions, slots

    def plan(self, num_rows: int) -> RaggedPlan:
        """As many sequences as rows: each has at least one."""
        starts, lengths = self._lengths[: num_rows + 1], self._lengths[num_rows + 1 : 2 * num_rows + 1]
        max_context_len = self._table.shape[1] * self._block_size
        return RaggedPlan(starts, lengths, self._table[:num_rows], min(num_rows, SHORT), max_context_len, 0)

    def takes(self, segment: Segment) -> bool:
        """Whether it is no prefill and its blocks have a place in the table."""
        return segment.query_len <= SHORT and segment.context_len <= self._table.shape[1] * self._block_size

    def fill(self, batch: Batch, num_rows: int) -> None:
        """From a batch in the host's memory; nothing waits for the device."""
        missing = num_rows - len(batch.input_ids)
        parts = [
            torch.nn.functional.pad(numbers, (0, missing), value=value)
            for numbers, value in ((batch.input_ids, 0), (batch.positions, 0), (batch.slots, self._padding_slot))
        ]
        self._numbers[: 3 * num_rows].copy_(upload(torch.cat(parts), torch.long, self._device))
        self._lengths[: 2 * num_rows + 1].copy_(
            upload(_lengths(batch.segments, len(batch.input_ids), num_rows), torch.int32, self._device)
        )
        self._fill_table(batch.segments)

    def _fill_table(self, segments: Sequence[Segment]) -> None:
        used = [segment.block_table[: -(-segment.context_len // self._block_size)] for segment in segments]
        width = max(len(table) for table in used)
        padded = [block for table in used for block in [*table, *[table[-1]] * (width - len(table))]]
        blocks = upload(padded, torch.int32, self._device).view(len(segments), width)
        self._table[: len(segments), :width].copy_(blocks)


class GraphRunner(Runner):
    """Replays what its probe recorded; other steps, prefills above all, run as in Runner."""

    def __init__(
        self,
        model: LoadedModel,
        cache: KvCache,
        backend: AttentionBackend,
        device: torch.device,
        fetch: Fetch,
        num_pages: int,
        record: Record,
        compiled: Callable[[Forward], Forward],
    ) -> None:
        super().__init__(model, cache, backend, device, fetch)
        self._inputs = Inputs(SIZES[-1], num_pages, cache, device)
        self._record = record
        self._compiled = compiled
        self._recordings: dict[int, Play] = {}

    def probe(self) -> None:
        super().probe()
        self._compile()
        self._record_all()

    def _compile(self) -> None:
        """Takes up to minutes, once. A model that cannot be compiled is recorded as it is."""
        eager = self._model
        self._model = replace(eager, forward=self._compiled(eager.forward))
        try:
            super().probe()
        except ConfigError as error:
            log.warning("the model runs uncompiled: %s", error)
            self._model = eager

    @torch.inference_mode()
    def _record_all(self) -> None:
        """Largest first, whose memory the others reuse. A model that cannot be recorded runs unrecorded."""
        try:
            for num_rows in reversed(SIZES):
                self._recordings[num_rows] = self._record(self._forward(num_rows))
        except RuntimeError as error:
            self._recordings.clear()
            log.warning("no CUDA graphs: %s", error)
        else:
            log.info("recorded CUDA graphs for up to %d rows", max(self._recordings))

    @torch.inference_mode()
    def compute(self, batch: Batch, layers_seen: set[int] | None = None) -> torch.Tensor:
        num_rows = self._size(batch) if layers_seen is None else None
        if num_rows is None:
            return super().compute(batch, layers_seen)
        self._inputs.fill(batch, num_rows)
        logits = self._recordings[num_rows]()
        num_real = len(batch.input_ids)
        if len(batch.logit_rows) == num_real:
            return logits[:num_real]
        return logits[upload(batch.logit_rows, torch.long, self._device)]

    def _size(self, batch: Batch) -> int | None:
        """Rows of the recording that takes the batch, None where none does."""
        if any(not self._inputs.takes(segment) for segment in batch.segments):
            return None
        return min((size for size in self._recordings if size >= len(batch.input_ids)), default=None)

    def _forward(self, num_rows: int) -> Play:
        ids, positions, slots = self._inputs.numbers(num_rows)
        slots.fill_(self._cache.padding_slot)
        step = PagedStep(self._cache, self.backend, self._inputs.plan(num_rows), slots)
        every_row = self._inputs.every_row[:num_rows]

        def forward() -> torch.Tensor:
            return self._model.forward(ids, positions, every_row, step.handle)

        return forward


def _lengths(segments: Sequence[Segment], num_real: int, num_rows: int) -> list[int]:
    """cu_seqlens_q and cache_seqlens of as many sequences as there are rows; those of nobody are without a query."""
    missing = num_rows - len(segments)
    starts = [segment.start for segment in segments] + [num_real] * (missing + 1)
    return starts + [segment.context_len for segment in segments] + [1] * missing
