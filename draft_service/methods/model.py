"""Drafting with a small language model of the target's vocabulary."""

import numpy as np

from draft_service.config import DraftConfig
from draft_service.drawing import drawer
from draft_service.experience import Experience
from draft_service.methods import DeviceFault
from draft_service.session import DraftSession
from forerun.errors import ConfigError, InvalidRequest
from forerun.models import resolve
from forerun.models.tokenizer_files import read_model_text
from forerun.rpc import convert
from forerun.rpc.messages import DraftOpen
from forerun.serving.model_service import ModelService
from forerun.serving.session import ReplyBox
from forerun.serving.start import build_engine
from forerun.telemetry.metrics import ServiceMetrics
from forerun.telemetry.tracing import Tracing
from forerun.types import ServiceInfo, Verification


class ModelMethod:
    """Samples token after token from the model's truncated law, batched over sequences."""

    def __init__(self, service: ModelService, num_support: int) -> None:
        self.tokens = service.text.tokens
        self._service = service
        self._num_support = num_support
        self._experience: dict[str, Experience] = {}
        head_ids = service.engine.model.head_ids
        self._columns = np.arange(service.text.vocab_size) if head_ids is None else head_ids
        width = service.engine.model.head_size
        if width < len(self._columns):
            raise ConfigError(f"the head of {service.name} has {width} rows for {len(self._columns)} ids")
        if self._columns.max() >= service.text.vocab_size:
            raise ConfigError(f"vocab.npy names id {self._columns.max()}, the tokenizer has {service.text.vocab_size}")

    def start(self) -> None:
        self._service.start()

    def stop(self) -> None:
        self._service.stop()

    def heartbeat_age_s(self) -> float:
        return self._service.heartbeat_age_s()

    def info(self) -> ServiceInfo:
        return self._service.info("draft", tuple(Verification), method="model")

    def session(self, opened: DraftOpen, box: ReplyBox, traceparent: str | None) -> DraftSession:
        service = self._service
        params = convert.sampling_from_pb(opened.sampling)
        if len(opened.noise_key) != 16:
            raise InvalidRequest(f"a noise key has 16 bytes, got {len(opened.noise_key)}", "noise_key")
        draws = drawer(params, opened.num_prompt_tokens, opened.noise_key, self._columns, self._num_support)
        return DraftSession(
            opened,
            draws,
            self._experience.setdefault(type(draws).__name__, Experience()),
            service.engine.loop,
            service.engine.max_model_len,
            service.text.vocab_size,
            box.put,
            service.metrics,
            service.tracing,
            traceparent,
        )


def create(config: DraftConfig, metrics: ServiceMetrics, tracing: Tracing, on_device_fault: DeviceFault) -> ModelMethod:
    """Loads the model. Its tokenizer is the target's where it has none of its own."""
    folder = resolve.resolve(config.model)
    shared = resolve.resolve(config.target_model) if config.target_model else None
    has_text = (folder / "tokenizer.json").exists()
    if not has_text and shared is None:
        raise ConfigError(f"{folder} has no tokenizer.json; name the model that it drafts for (--target-model)")
    text = read_model_text(folder if has_text or shared is None else shared)
    engine = build_engine(config, folder, config.model, metrics, tracing, on_device_fault, embedding_from=shared)
    return ModelMethod(ModelService(resolve.public_name(config.model), engine, text, metrics, tracing), config.support)
