"""The gateway's process: wires replicas, coordinator and both faces together, and drains on SIGTERM."""

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator

from forerun.errors import ConfigError
from forerun.models import resolve
from forerun.models.tokenizer_files import ModelText, read_model_text
from forerun.rpc.channels import found_as
from forerun.rpc.clients import DraftClient, TargetClient
from forerun.rpc.server import stop_on_signals
from forerun.telemetry import tracing
from forerun.telemetry.exposition import render
from forerun.telemetry.metrics import GatewayMetrics, new_registry
from forerun.telemetry.tracing import Tracing
from forerun.types import Verification
from gateway.api.core import Core
from gateway.api.limits import ModelInfo
from gateway.api.observer import TelemetryObserver
from gateway.app import create_app
from gateway.config import GatewayConfig
from gateway.coordinator import Coordinator, CoordinatorSettings
from gateway.discovery import Discovery, sources
from gateway.faces import listen
from gateway.pairing import OwnVocabulary, PairCheck
from gateway.replicas import Replicas, wait_for_one
from gateway.text import Text

log = logging.getLogger(__name__)


async def serve(config: GatewayConfig) -> int:
    """Serves until SIGTERM or SIGINT; returns the exit status. Raises ConfigError for a pair that does not fit."""
    stop = stop_on_signals()
    clients, tls = config.clients(), config.public_tls()
    model_text = read_model_text(resolve.resolve_text(config.model))
    registry = new_registry("gateway")
    metrics, spans = GatewayMetrics(registry), tracing.setup("forerun-gateway")
    try:
        async with _coordinator(config, model_text, metrics, spans, stop) as (coordinator, max_model_len):
            model = ModelInfo(
                names=(config.served_model_name or resolve.public_name(config.model),),
                vocab_size=model_text.vocab_size,
                max_model_len=max_model_len,
                eos_token_ids=model_text.eos_token_ids,
                created=int(time.time()),
                sampled_rule=Verification.MATCH if config.untrusted_drafts else Verification.REJECTION,
            )
            observer = TelemetryObserver(spans, metrics)
            limits = config.limits(max_model_len)
            text = Text.of(model_text)
            core = Core(coordinator, text, model, limits, observer, clients=clients, capacity=coordinator.capacity)
            metrics.num_requests_queued.set_function(lambda: core.admission.num_queued)
            await listen(config, tls, core, create_app(core, metrics=lambda: render(registry)), stop)
    except _Stopped:
        return 0
    finally:
        await asyncio.to_thread(spans.shutdown)
    return 0


class _Stopped(Exception):
    """The process was told to stop before it served."""


@contextlib.asynccontextmanager
async def _coordinator(
    config: GatewayConfig, text: ModelText, metrics: GatewayMetrics, spans: Tracing, stop: asyncio.Event
) -> AsyncIterator[tuple[Coordinator, int]]:
    """The coordinator once a target answers, and the context that gateway and target can both handle."""
    ours = OwnVocabulary(text.tokens, text.fingerprint, text.eos_token_ids)
    if not config.target_addresses:
        raise ConfigError("--target-addresses is empty; name at least one target as host:port")
    target_tls, draft_tls = config.peer_tls()
    fits = PairCheck(ours, "target")
    targets, drafts = Replicas[TargetClient]([], fits), Replicas[DraftClient]([], PairCheck(ours, "draft"))
    found_targets = sources(config.target_addresses, "--target-addresses")
    found_drafts = sources(config.draft_addresses, "--draft-addresses")
    discoveries = (
        Discovery(
            found_targets,
            targets,
            lambda place: TargetClient(place.address, tls=found_as(place.name, target_tls)),
        ),
        Discovery(
            found_drafts,
            drafts,
            lambda place: DraftClient(place.address, tls=found_as(place.name, draft_tls)),
        ),
    )
    coordinator_settings = CoordinatorSettings(
        config.fixed_num_draft_tokens,
        config.max_num_draft_tokens,
        config.target_timeout_s,
        config.ahead,  # type: ignore[arg-type]
        config.own_drafter,  # type: ignore[arg-type]
        not config.untrusted_drafts,
    )
    try:
        await asyncio.gather(*(discovery.start() for discovery in discoveries))
        await _until(wait_for_one(targets, "target"), stop)
        fits.min_model_len = min(replica.info.max_model_len for replica in targets.all if replica.info is not None)
        coordinator = Coordinator(targets, drafts if found_drafts else None, metrics, spans, coordinator_settings)
        yield coordinator, fits.min_model_len
    finally:
        await asyncio.gather(*(discovery.close() for discovery in discoveries))


async def _until(waiting: object, stop: asyncio.Event) -> None:
    """Waits, unless the process is told to stop first."""
    work, stopped = asyncio.ensure_future(waiting), asyncio.ensure_future(stop.wait())  # type: ignore[call-overload]
    done, pending = await asyncio.wait({work, stopped}, return_when=asyncio.FIRST_COMPLETED)
    for task in pending:
        task.cancel()
    if work not in done:
        raise _Stopped
    await work
