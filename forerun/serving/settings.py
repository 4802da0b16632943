"""The flags that the draft and the target service share."""

from dataclasses import dataclass

from forerun.config import option


@dataclass(frozen=True)
class ServiceConfig:
    """Settings of a service that runs a model; each service has ports of its own."""

    host: str = option("127.0.0.1", "address to listen on")
    port: int = option(0, "gRPC port")
    metrics_port: int = option(0, "port of /metrics; 0 is off")
    precision: str = option(
        "auto",
        "weights: bf16, int8, int4, fp8 or fp32; auto: own of a quantised checkpoint, else the faster of bf16, int8",
        ("auto", "bf16", "int8", "int4", "fp8", "fp32"),
    )
    compile: str = option(
        "auto", "compile the model for this CPU at the first start; auto does where it can", ("auto", "on", "off")
    )
    device: str = option("cpu", "torch device that holds the model")
    attention: str = option(
        "auto",
        "attention backend: auto is fa3, varlen, sdpa on a GPU, paged_native on a CPU; paged_cpu and paged_rowwise are "
        "the references",
    )
    kv_cache: str = option("auto", "keys and values: auto is the activations' dtype, fp8 halves it", ("auto", "fp8"))
    deterministic: bool = option(False, "fixed kernel shapes: neighbours and chunks change no bit, at a cost in speed")
    threads: int = option(0, "CPU threads of a forward; 0 is as many as pay, at most one a core")
    max_threads: int = option(0, "with --threads 0, most of them; 0 is one a core")
    cache_tokens: int = option(0, "tokens that the KV cache holds; 0 takes --memory-fraction of what is free")
    memory_fraction: float = option(0.2, "share of the free memory for the KV cache")
    block_size: int = option(16, "tokens per cache block")
    max_model_len: int = option(0, "longest sequence in tokens; 0 is the model's own limit")
    max_sequences: int = option(64, "sequences in one batch; more wait")
    max_streams: int = option(256, "open streams; more are refused")
    prefill_chunk: int = option(512, "most prompt tokens of a step in which nobody decodes")
    tls_cert: str = option("", "certificate chain (PEM) for mutual TLS with the gateway; with --tls-key and --tls-ca")
    tls_key: str = option("", "its private key (PEM)")
    tls_ca: str = option("", "certificates (PEM) of the CAs that sign the gateway's")
    tls_client_names: str = option("", "DNS names of the certificates that may call: a,b; empty lets every signed one")
    health_port: int = option(0, "port of gRPC health alone, without TLS, for probes that speak none; 0 is off")
    grace_s: float = option(10.0, "seconds that running streams get to end after SIGTERM")
    reflection: bool = option(False, "gRPC reflection, for development")
    log_level: str = option("INFO", "DEBUG, INFO, WARNING or ERROR")
    log_format: str = option("json", "json or text", ("json", "text"))
    log_content: bool = option(False, "show the words of unforeseen errors in logs, which may quote prompts and tokens")
