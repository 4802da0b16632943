"""What an image installs beside the project itself, one pinned requirement a line.

python scripts/image_requirements.py gateway|services
"""

import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# What only a process that holds a model imports. tests/unit/scripts holds the gateway to it.
MODEL_ONLY = ("torch", "transformers", "safetensors", "accelerate", "gguf")


def requirements(image: str, pyproject: Path = ROOT / "pyproject.toml") -> list[str]:
    """The project's dependencies, for the gateway those without a model. torch is installed apart, in one build."""
    if image not in ("gateway", "services"):
        raise SystemExit(f"{image} is no image; use gateway or services")
    left_out = MODEL_ONLY if image == "gateway" else ("torch",)
    dependencies = tomllib.loads(pyproject.read_text(encoding="utf-8"))["project"]["dependencies"]
    return [line for line in dependencies if line.partition("==")[0] not in left_out]


if __name__ == "__main__":
    print("\n".join(requirements(*sys.argv[1:])))
