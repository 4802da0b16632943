"""The model that is drafted for, as files."""

import hashlib
from dataclasses import dataclass
from pathlib import Path

from transformers import AutoConfig, PretrainedConfig

from forerun.engine.model import check_supported
from forerun.errors import ConfigError
from forerun.models.resolve import public_name, resolve
from forerun.models.tokenizer_files import ModelText, read_model_text


@dataclass(frozen=True, slots=True)
class Target:
    """name: as it is served. weights: tells one checkpoint from another."""

    name: str
    folder: Path
    text: ModelText
    config: PretrainedConfig
    weights: str

    @property
    def num_layers(self) -> int:
        """Raises ConfigError where the configuration does not say."""
        count = getattr(self.config, "num_hidden_layers", None)
        if not isinstance(count, int):
            raise ConfigError(f"the configuration of {self.name} does not say how many layers it has")
        return count


def read_target(name: str) -> Target:
    """Raises ConfigError for a model that cannot be served, and so not be drafted for."""
    folder = resolve(name)
    config: PretrainedConfig = AutoConfig.from_pretrained(folder, trust_remote_code=False, local_files_only=True)
    check_supported(config)
    return Target(public_name(name), folder, read_model_text(folder), config, _digest(folder))


def _digest(folder: Path) -> str:
    """Of the configuration and of the weights' sizes: enough to notice another model under the same name."""
    sizes = [(path.name, path.stat().st_size) for path in sorted(folder.glob("*.safetensors"))]
    return hashlib.sha256(repr(((folder / "config.json").read_text(encoding="utf-8"), sizes)).encode()).hexdigest()[:16]
