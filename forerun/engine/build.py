"""Assembles an engine from settings: model, cache sized to the memory that is left, scheduler, device thread."""

import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from forerun.engine import (
    attention,
    compiled,
    cuda_graphs,
    inductor,
    kv_calibration,
    memory,
    model,
    reduction,
    timing_turn,
)
from forerun.engine.attention import choice
from forerun.engine.attention.base import AttentionBackend
from forerun.engine.block_pool import BlockPool
from forerun.engine.budget import PrefillBudget
from forerun.engine.kv_cache import KvCache, KvShape
from forerun.engine.loop import EngineLoop
from forerun.engine.model import LoadedModel
from forerun.engine.owner import StepReport
from forerun.engine.quant import checkpoint
from forerun.engine.quant.e4m3 import E4M3
from forerun.engine.ranks.group import Ranks
from forerun.engine.ranks.leader import LeadingRunner
from forerun.engine.ranks.lines import Leading
from forerun.engine.runner import Runner
from forerun.engine.scheduler import Scheduler
from forerun.engine.sequence_table import SequenceTable
from forerun.engine.tiled_runner import TiledRunner
from forerun.errors import ConfigError

log = logging.getLogger(__name__)

MAX_CACHE_TOKENS = 131_072
"""Where no size is set, a cache larger than this serves no batch that a CPU can run."""


@dataclass(frozen=True, slots=True)
class EngineSettings:
    """precision and compile may be `auto`: see fastest. kv_cache: `auto` is the activations' dtype, or `fp8`.

    cache_tokens 0 takes memory_fraction of what is free once the model is loaded; max_model_len 0 is the model's.
    adapts_threads: a step has as many of num_threads as pay (thread_count.py); never where bits must stay the same.
    """

    folder: Path
    model_id: str
    precision: str = "bf16"
    compile: str = "off"
    num_threads: int = 1
    adapts_threads: bool = False
    embedding_from: Path | None = None
    deterministic: bool = False
    attention_backend: str = "auto"
    kv_cache: str = "auto"
    device: str = "cpu"
    block_size: int = 16
    cache_tokens: int = 0
    memory_fraction: float = 0.2
    max_model_len: int = 0
    max_sequences: int = 64
    max_rows: int = 2048
    prefill_chunk: int = 512
    ranks: Ranks | None = None


@dataclass(frozen=True, slots=True)
class Engine:
    """A device thread that is ready to start, and what its service tells about it."""

    loop: EngineLoop
    model: LoadedModel
    num_blocks: int
    block_size: int
    max_model_len: int
    backend: str
    close: Callable[[], None]


def build(
    settings: EngineSettings,
    on_step: Callable[[StepReport], None],
    on_device_fault: Callable[[Exception], None],
) -> Engine:
    """Loads the model and proves by one forward that every layer attends through the cache.

    Raises ConfigError for what cannot be served, with the setting that would have to change.
    """
    part = build_part(settings)
    num_blocks = part.num_blocks
    leader = _leader(settings, part)
    table = SequenceTable(BlockPool(num_blocks, settings.block_size), settings.model_id)
    loop = EngineLoop(
        leader or part.runner,
        table,
        Scheduler(table, settings.max_sequences),
        PrefillBudget(settings.prefill_chunk),
        settings.max_rows,
        on_step,
        on_device_fault,
    )
    log.info("the engine runs on %s", part.label)
    close = leader.stop if leader else _nothing
    return Engine(loop, part.model, num_blocks, settings.block_size, part.max_model_len, part.label, close)


@dataclass(frozen=True, slots=True)
class Part:
    """What each rank has, and a process that is alone: the model or its share of it, and what computes with it."""

    model: LoadedModel
    runner: Runner
    num_blocks: int
    max_model_len: int
    label: str


def build_part(settings: EngineSettings) -> Part:
    """See build; of several ranks, each calls it at the same time."""
    ranks = settings.ranks
    device = ranks.device if ranks else torch.device(settings.device)
    loaded, how = _load(settings, device)
    plain = KvShape.of(loaded.config, loaded.dtype).share(ranks.place.size if ranks else 1)
    shape = replace(plain, dtype=E4M3) if settings.kv_cache == "fp8" else plain
    num_blocks = _num_blocks(settings, shape, device)
    num_blocks = ranks.least(num_blocks) if ranks else num_blocks
    max_len = _max_model_len(settings, loaded, num_blocks)
    scales = kv_calibration.calibrate(loaded, plain, device) if shape is not plain else None
    cache = KvCache(shape, num_blocks, settings.block_size, device, scales)
    runner = runner_for(settings, loaded, cache, shape, max_len)
    if settings.adapts_threads:
        with timing_turn.taken():
            threads = runner.adapt_threads(settings.num_threads)
        log.info("threads of a round, a batch, a prompt: %s", threads)
    label = f"{runner.backend.name} {how} {device.type}" + (" fp8-kv" if scales else "")
    return Part(loaded, runner, num_blocks, max_len, label)


def _leader(settings: EngineSettings, part: Part) -> LeadingRunner | None:
    ranks = settings.ranks
    if ranks is None:
        return None
    if not isinstance(ranks.line, Leading):
        raise ConfigError(f"rank {ranks.place.rank} follows; the engine is rank 0's")
    return LeadingRunner(part.runner, ranks.line, settings.block_size)


def _nothing() -> None:
    """There are no other ranks to tell."""


def _load(settings: EngineSettings, device: torch.device) -> tuple[LoadedModel, str]:
    """The model and how it runs. What cannot be compiled runs uncompiled, unless compilation was demanded."""
    if settings.ranks:
        precision, size = "bf16" if settings.precision == "auto" else settings.precision, settings.ranks.place.size
        return model.load(settings.folder, precision, device, num_ranks=size), f"{precision} x{size}"
    precision, is_compiled = fastest(settings)
    if is_compiled:
        recipe = compiled.Recipe(settings.folder, precision, settings.num_threads, settings.embedding_from)
        try:
            return compiled.load(recipe), f"{precision} compiled"
        except ConfigError as error:
            if settings.compile == "on":
                raise
            log.warning("%s", error)
            precision = "bf16" if settings.precision == "auto" else precision
    return model.load(settings.folder, precision, device, settings.embedding_from), precision


def runner_for(settings: EngineSettings, loaded: LoadedModel, cache: KvCache, shape: KvShape, max_len: int) -> Runner:
    """On the first attention backend that shows by one forward that it runs here. Raises what the last one raised."""
    device = settings.ranks.device if settings.ranks else torch.device(settings.device)
    wanted, is_exact = settings.attention_backend, settings.deterministic
    failure = ConfigError("there is no attention backend")
    for name in choice.candidates(wanted, device, shape.head_dim, shape.dtype, is_exact):
        try:
            runner = _new_runner(settings, loaded, cache, attention.create(name), max_len)
            runner.probe()
            return runner
        except ConfigError as error:
            log.warning("attention backend %s does not serve here: %s", name, error)
            failure = error
    raise failure


def _new_runner(
    settings: EngineSettings, loaded: LoadedModel, cache: KvCache, backend: AttentionBackend, max_len: int
) -> Runner:
    device = settings.ranks.device if settings.ranks else torch.device(settings.device)
    on_gpu = device.type == "cuda"
    fetch = reduction.reduced if on_gpu else reduction.whole
    if settings.ranks and settings.ranks.place.rank:
        fetch = reduction.nothing
    if settings.deterministic:
        return TiledRunner(loaded, cache, backend, device, fetch)
    if on_gpu and settings.ranks is None and settings.compile != "off" and backend.name in cuda_graphs.BACKENDS:
        num_pages = -(-max_len // settings.block_size)
        graphs = cuda_graphs.CudaGraphs()
        return cuda_graphs.GraphRunner(
            loaded, cache, backend, device, fetch, num_pages, graphs, inductor.InductorForward
        )
    return Runner(loaded, cache, backend, device, fetch)


def fastest(settings: EngineSettings) -> tuple[str, bool]:
    """The precision, and whether to compile, that `auto` stands for here.

    Raises ConfigError for a demand to compile what cannot be.
    """
    can = settings.device == "cpu" and compiled.can_compile()
    precision = settings.precision
    if precision == "auto":
        precision = checkpoint.own_precision(settings.folder, settings.device) or precision
    if precision == "auto":
        precision = "int8" if can and settings.compile != "off" else "bf16"
    if settings.compile == "on" and not (can and precision in compiled.PRECISIONS):
        raise ConfigError(
            "--compile on needs a C++ compiler, the device cpu and a precision of " + ", ".join(compiled.PRECISIONS)
        )
    return precision, settings.compile != "off" and can and precision in compiled.PRECISIONS


def _num_blocks(settings: EngineSettings, shape: KvShape, device: torch.device) -> int:
    tokens = settings.cache_tokens
    if not tokens:
        free = memory.free_bytes(device)
        tokens = min(MAX_CACHE_TOKENS, int(free * settings.memory_fraction / shape.bytes_per_token))
    num_blocks = tokens // settings.block_size
    if num_blocks < 2:
        raise ConfigError(f"room for {tokens} cached tokens is too little; raise --cache-tokens or free memory")
    return num_blocks


def _max_model_len(settings: EngineSettings, loaded: LoadedModel, num_blocks: int) -> int:
    text = loaded.config.get_text_config(decoder=True)
    own = int(getattr(text, "max_position_embeddings", 0) or 0) or num_blocks * settings.block_size
    if settings.max_model_len > own:
        raise ConfigError(f"--max-model-len {settings.max_model_len} is over the model's own limit of {own}")
    return min(settings.max_model_len or own, num_blocks * settings.block_size)
