"""Attention backends over the paged cache; one line here and one file each."""

from forerun import registry
from forerun.engine.attention.base import AttentionBackend

BACKENDS = {
    "fa3": "forerun.engine.attention.fa3:Fa3",
    "fa3_exact": "forerun.engine.attention.fa3:Fa3Exact",
    "paged_cpu": "forerun.engine.attention.paged_cpu:PagedCpu",
    "paged_native": "forerun.engine.attention.paged_native:PagedNative",
    "paged_rowwise": "forerun.engine.attention.paged_rowwise:PagedRowwise",
    "sdpa": "forerun.engine.attention.sdpa:Sdpa",
    "varlen": "forerun.engine.attention.varlen:Varlen",
    "varlen_exact": "forerun.engine.attention.varlen:VarlenExact",
}


def create(name: str) -> AttentionBackend:
    """Raises ConfigError that lists the known names for an unknown one."""
    backend: AttentionBackend = registry.load(BACKENDS, name, "attention backend")()
    return backend
