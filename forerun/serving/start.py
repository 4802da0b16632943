"""From a service's settings to its engine."""

from collections.abc import Callable
from pathlib import Path

from forerun.engine import build, torch_setup
from forerun.engine.cores import num_cores
from forerun.engine.ranks.group import Ranks
from forerun.serving.observer import StepObserver
from forerun.serving.settings import ServiceConfig
from forerun.telemetry.metrics import ServiceMetrics
from forerun.telemetry.tracing import Tracing


def build_engine(
    config: ServiceConfig,
    folder: Path,
    model_id: str,
    metrics: ServiceMetrics,
    tracing: Tracing,
    on_device_fault: Callable[[Exception], None],
    embedding_from: Path | None = None,
    ranks: Ranks | None = None,
) -> build.Engine:
    """Loads the model and wires the device thread to metrics and traces; the thread is not started yet."""
    observer = StepObserver(metrics, tracing.step_tracer())
    settings = prepare(config, folder, model_id, embedding_from, ranks)
    engine = build.build(settings, observer.on_step, on_device_fault)
    observer.watch(engine.loop)
    return engine


def prepare(
    config: ServiceConfig, folder: Path, model_id: str, embedding_from: Path | None = None, ranks: Ranks | None = None
) -> build.EngineSettings:
    """Settings of an engine in this process, whose torch is ready for it afterwards."""
    num_threads = config.threads or min(num_cores(), config.max_threads or num_cores())
    torch_setup.prepare(num_threads)
    return build.EngineSettings(
        folder=folder,
        model_id=model_id,
        precision=config.precision,
        compile=config.compile,
        num_threads=num_threads,
        adapts_threads=not config.threads and config.device == "cpu" and not config.deterministic and ranks is None,
        embedding_from=embedding_from,
        deterministic=config.deterministic,
        attention_backend=config.attention,
        kv_cache=config.kv_cache,
        device=config.device,
        block_size=config.block_size,
        cache_tokens=config.cache_tokens,
        memory_fraction=config.memory_fraction,
        max_model_len=config.max_model_len,
        max_sequences=config.max_sequences,
        prefill_chunk=config.prefill_chunk,
        ranks=ranks,
    )
