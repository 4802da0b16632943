"""The gateway's flags that say who may call, what is shown to whom, and how much one may ask for."""

import dataclasses
from dataclasses import dataclass

from forerun.config import option
from forerun.errors import ConfigError
from forerun.rpc.certificates import Certificates, certificates, public_certificates
from forerun.rpc.channels import PeerTls
from gateway.api.clients import Clients
from gateway.api.keys import ApiKeys
from gateway.api.limits import Limits

_MAY_BE_0 = frozenset(
    (
        "max_prompt_tokens",
        "max_request_tokens",
        "max_stops",
        "max_logit_bias",
        "max_running_choices",
        "max_waiting_requests",
    )
)
_CONTEXTS = 16  # of output tokens, in one request, where no flag says otherwise


@dataclass(frozen=True)
class LockConfig:
    """See docs/security.md."""

    tls_cert: str = option("", "certificate chain (PEM) that drafts and targets are shown; with --tls-key and --tls-ca")
    tls_key: str = option("", "its private key (PEM)")
    tls_ca: str = option("", "certificates (PEM) of the CAs that sign the drafts' and the targets'")
    target_tls_name: str = option("", "DNS name in the targets' certificates; empty expects the host of each address")
    draft_tls_name: str = option("", "DNS name in the drafts' certificates; empty expects the host of each address")
    public_tls_cert: str = option("", "certificate chain (PEM) that clients are shown, on REST and gRPC")
    public_tls_key: str = option("", "its private key (PEM)")
    api_keys_file: str = option("", "file of API keys, one a line, read again when it changes; empty asks for none")
    untrusted_drafts: bool = option(False, "serve drafts only where no lie of theirs can change what comes out")
    max_requests_per_key: int = option(256, "requests of one API key at the same time; more get a 429")
    max_running_choices: int = option(0, "choices generated at the same time, more wait; 0 is as many as targets run")
    max_waiting_requests: int = option(1_024, "requests that wait for a place; more get a 429")
    max_queue_s: float = option(60.0, "seconds that a request waits for its first token before it gets a 429")
    max_body_bytes: int = option(10_000_000, "bytes of a request's body")
    max_prompt_tokens: int = option(0, "tokens of a prompt; 0 is the context")
    max_choices: int = option(128, "choices of one request: n times its prompts")
    max_request_tokens: int = option(0, f"choices x max_tokens of one request; 0 is {_CONTEXTS} times the context")
    max_request_logprobs: int = option(500_000, "logprobs that one answer may hold, those of an echoed prompt included")
    max_stops: int = option(16, "stop strings of a request")
    max_logit_bias: int = option(1_024, "entries of a request's logit_bias")

    def check_limits(self) -> None:
        """Raises ConfigError for a limit below which nothing could be asked for."""
        for name in (field.name for field in dataclasses.fields(LockConfig) if field.name.startswith("max_")):
            value, least = getattr(self, name), 0 if name in _MAY_BE_0 else 1
            if value < least:
                raise ConfigError(f"--{name.replace('_', '-')} is at least {least}, not {value}")

    def limits(self, max_model_len: int) -> Limits:
        """What one request may ask for, of a model with this context."""
        return Limits(
            body_bytes=self.max_body_bytes,
            prompt_tokens=self.max_prompt_tokens or max_model_len,
            choices=self.max_choices,
            output_tokens=self.max_request_tokens or _CONTEXTS * max_model_len,
            logprobs=self.max_request_logprobs,
            stops=self.max_stops,
            logit_bias=self.max_logit_bias,
            running_choices=self.max_running_choices,
            waiting_requests=self.max_waiting_requests,
            queue_s=self.max_queue_s,
        )

    def clients(self) -> Clients:
        """Who may call. Raises ConfigError for a file without a key."""
        keys = ApiKeys(self.api_keys_file) if self.api_keys_file else None
        return Clients(keys, self.max_requests_per_key)

    def public_tls(self) -> Certificates | None:
        """What clients are shown; None serves them without TLS."""
        return public_certificates(self.public_tls_cert, self.public_tls_key)

    def peer_tls(self) -> tuple[PeerTls | None, PeerTls | None]:
        """How targets and drafts are met; None without TLS."""
        shown = certificates(self.tls_cert, self.tls_key, self.tls_ca)
        if shown is None:
            return None, None
        return PeerTls(shown, self.target_tls_name), PeerTls(shown, self.draft_tls_name)
