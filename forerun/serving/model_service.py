"""What a running model service holds: its engine, its text, and where it reports to."""

from dataclasses import dataclass

from forerun import __version__
from forerun.engine.build import Engine
from forerun.models.tokenizer_files import ModelText
from forerun.telemetry.metrics import ServiceMetrics
from forerun.telemetry.tracing import Tracing
from forerun.types import ServiceInfo, Verification


@dataclass(frozen=True)
class ModelService:
    """Everything that a servicer needs, wired once in __main__."""

    name: str
    engine: Engine
    text: ModelText
    metrics: ServiceMetrics
    tracing: Tracing

    def start(self) -> None:
        """Starts the device thread."""
        self.metrics.max_sequences.set(self.engine.loop.scheduler.max_running)
        self.engine.loop.start()

    def stop(self) -> None:
        """Ends it after the step in progress."""
        self.engine.loop.stop()
        self.engine.close()

    def heartbeat_age_s(self) -> float:
        """Seconds since the device thread last went round."""
        return self.engine.loop.heartbeat_age_s

    def info(self, service: str, verifications: tuple[Verification, ...], method: str = "") -> ServiceInfo:
        """What peers are told; load is of this moment."""
        scheduler, pool = self.engine.loop.scheduler, self.engine.loop.table.pool
        return ServiceInfo(
            service=service,
            version=__version__,
            model=self.name,
            vocab_size=self.text.vocab_size,
            fingerprint=self.text.fingerprint,
            eos_token_ids=self.text.eos_token_ids,
            max_model_len=self.engine.max_model_len,
            backend=self.engine.backend,
            method=method,
            verifications=verifications,
            block_size=self.engine.block_size,
            num_blocks=pool.num_blocks,
            num_free_blocks=pool.num_free,
            num_running=sum(not sequence.expendable for sequence in list(scheduler.running)),
            num_waiting=scheduler.num_queued,
            max_sequences=scheduler.max_running,
        )
