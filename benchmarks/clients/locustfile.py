"""What locust's users do: chats, streamed and not, one after another. Run by benchmarks.clients.loaded."""

import json
import time

from locust import HttpUser, between, events, task

PROMPTS = (
    "Write a Python function that reverses a list.",
    "Explain in simple words why the sky is blue.",
    "List three tips for a first garden.",
)


class Chatter(HttpUser):
    """Asks, reads, waits a moment."""

    wait_time = between(0.1, 0.5)
    turn = 0

    def body(self, **more):
        self.turn += 1
        message = {"role": "user", "content": PROMPTS[self.turn % len(PROMPTS)]}
        return {"model": "SmolLM2-135M-Instruct", "messages": [message], "max_tokens": 48, "temperature": 0, **more}

    @task(1)
    def whole(self):
        """One answer at once."""
        self.client.post("/v1/chat/completions", json=self.body(), name="chat")

    @task(3)
    def streamed(self):
        """Chunk by chunk; the time to the first is a figure of its own."""
        start = time.perf_counter()
        body = self.body(stream=True)
        with self.client.post(
            "/v1/chat/completions", json=body, stream=True, catch_response=True, name="chat, streamed"
        ) as reply:
            done = first = False
            for line in reply.iter_lines():
                if line == b"data: [DONE]":
                    done = True
                elif line.startswith(b"data: ") and not first and "choices" in json.loads(line[6:]):
                    first = True
                    elapsed_ms = 1000 * (time.perf_counter() - start)
                    events.request.fire(
                        request_type="SSE", name="first chunk", response_time=elapsed_ms, response_length=0,
                        exception=None, context={},
                    )  # fmt: skip
            if reply.status_code == 200 and done:
                reply.success()
            else:
                reply.failure(f"status {reply.status_code}, ended well: {done}")
