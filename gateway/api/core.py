"""The one way from a checked request to its tokens, for REST and gRPC alike."""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from gateway.api.admission import Admission
from gateway.api.clients import Clients
from gateway.api.coordinating import Coordinator
from gateway.api.errors import face_of
from gateway.api.following import Following
from gateway.api.freshness import Freshness
from gateway.api.job import Job
from gateway.api.limits import Limits, ModelInfo
from gateway.api.observer import OPERATIONS, Observer, SilentObserver
from gateway.api.requests import Requests
from gateway.api.runner import Run
from gateway.text import Text

_log = logging.getLogger("forerun.gateway")


class Core:
    """Everything that both faces share: reading requests, running them, watching them."""

    def __init__(
        self,
        coordinator: Coordinator,
        text: Text,
        model: ModelInfo,
        limits: Limits | None = None,
        observer: Observer | None = None,
        clock: Callable[[], float] = time.perf_counter,
        clients: Clients | None = None,
        capacity: Callable[[], int | None] = lambda: None,
    ) -> None:
        self.text = text
        self.model = model
        self.limits = limits or Limits()
        self.requests = Requests(text, model, self.limits)
        self.freshness = Freshness(coordinator, clock)
        self._coordinator = coordinator
        self._observer = observer or SilentObserver()
        self._clock = clock
        self.admission = Admission(self.limits, capacity)
        self.clients = clients or Clients()

    @asynccontextmanager
    async def running(self, job: Job, request_id: str, traceparent: str | None) -> AsyncIterator[Run]:
        """Starts the request's choices; leaving the block, for whatever reason, ends them and tells the observer."""
        watch = self._observer.begin(OPERATIONS[job.endpoint], job, traceparent)
        following = Following(job, request_id, watch, self.freshness, self._clock)
        deadline = asyncio.get_running_loop().time() + self.limits.queue_s
        run = Run(self._coordinator, self.text, job, following.on_tokens, deadline)
        try:
            async with self.admission.admitted(job.num_choices, deadline) as places:
                with watch.current():
                    run.on_ended = places.one
                    async with run:
                        yield run
        except (asyncio.CancelledError, GeneratorExit):
            following.end(run.totals, 499, "cancelled")
            raise
        except Exception as error:
            self.tell_unforeseen(error, request_id)
            following.end(run.totals, face_of(error).http, type(error).__name__)
            raise
        following.end(run.totals, 200, "")

    def refused(self, endpoint: str, error: Exception, request_id: str, traceparent: str | None) -> None:
        """Tells the observer of a request that never ran."""
        self.tell_unforeseen(error, request_id)
        operation = OPERATIONS[endpoint]
        watch = self._observer.begin(operation, None, traceparent)
        watch.end(Following.refusal(request_id, operation, face_of(error).http, type(error).__name__))

    def tell_unforeseen(self, error: Exception, request_id: str) -> None:
        """Logs the traceback of an error that nobody raised on purpose."""
        if face_of(error).code == "internal_error":
            _log.error("request failed", exc_info=error, extra={"request_id": request_id})
