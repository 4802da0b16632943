"""One step on the device: a batch in, the logits of its due rows out."""

from collections.abc import Sequence

import torch

from forerun.engine.attention.base import AttentionBackend, Segment
from forerun.engine.batch import Batch, flatten
from forerun.engine.kv_cache import KvCache
from forerun.engine.logits import StepLogits
from forerun.engine.model import LoadedModel
from forerun.engine.paged_op import PagedStep
from forerun.engine.reduction import Fetch, whole
from forerun.engine.scheduler import Slice
from forerun.engine.thread_count import ThreadCount, measured
from forerun.errors import ConfigError


class Runner:
    """Runs whole batches as one forward."""

    def __init__(
        self,
        model: LoadedModel,
        cache: KvCache,
        backend: AttentionBackend,
        device: torch.device,
        fetch: Fetch = whole,
    ) -> None:
        self._model = model
        self._cache = cache
        self.backend = backend
        self._device = device
        self._fetch = fetch
        self._threads: ThreadCount | None = None

    def adapt_threads(self, num_cores: int) -> ThreadCount:
        """From now on a step has as many threads as pay, which a few steps show."""
        self._threads = measured(lambda num_rows: self.compute(self._nothing(num_rows)), num_cores)
        return self._threads

    def run(self, slices: Sequence[Slice]) -> StepLogits:
        """Computes the slices' tokens into the cache; logits `[num_logits, head size] float32` in their order."""
        return self.run_batch(flatten(slices, self._cache.block_size))

    def run_batch(self, batch: Batch) -> StepLogits:
        """The same of slices that were flattened already."""
        self._cache.clear(batch.entered)
        return self._fetch(self.compute(batch), batch.best_of)

    def copy_blocks(self, sources: Sequence[int], copies: Sequence[int]) -> None:
        """Each copy holds from now on what its source holds, in all layers."""
        self._cache.copy(sources, copies)

    def probe(self) -> None:
        """One forward of a lone token. Raises ConfigError naming a layer that does not attend through the cache."""
        seen: set[int] = set()
        kind = self._model.config.model_type
        try:
            self.compute(self._nothing(1), seen)
        except (TypeError, RuntimeError, AttributeError) as error:
            raise ConfigError(f"layer {len(seen)} of {kind} does not fit the paged cache: {error}") from error
        if missing := set(range(len(self._cache.layers))) - seen:
            raise ConfigError(f"layer {min(missing)} of {kind} does not attend through the paged cache")

    @torch.inference_mode()
    def compute(self, batch: Batch, layers_seen: set[int] | None = None) -> torch.Tensor:
        """One forward; logits `[num_logits, head size] float32` on the device, where they may still be under way."""
        if self._threads is not None:
            self._threads.use_for(len(batch.input_ids))
        batch = batch.on(self._device)
        plan = self.backend.plan(batch.segments, self._cache.block_size, self._device)
        step = PagedStep(self._cache, self.backend, plan, batch.slots, layers_seen)
        return self._model.forward(batch.input_ids, batch.positions, batch.logit_rows, step.handle)

    def _nothing(self, num_rows: int) -> Batch:
        """Rows of sequences that are nobody's, as long as a block, with one row of logits."""
        zeros, slot, size = torch.zeros(num_rows, dtype=torch.long), self._cache.padding_slot, self._cache.block_size
        segments = (
            Segment(start, length, length, [slot // size])
            for start in range(0, num_rows, size)
            if (length := min(size, num_rows - start))
        )
        return Batch(zeros, zeros, zeros + slot, zeros[:1], tuple(segments))
