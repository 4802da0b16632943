"""Generates forerun/v1 from protos/: `python scripts/protos.py`. The build hook calls it too."""

from importlib import resources
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def generate(root: Path = ROOT) -> None:
    """Writes messages, their type stubs and the services' stubs; raises RuntimeError where protoc refuses."""
    from grpc_tools import protoc

    files = sorted(str(path.relative_to(root)) for path in (root / "protos").rglob("*.proto"))
    arguments = [
        "protoc",
        f"-I{root / 'protos'}",
        f"-I{resources.files('grpc_tools') / '_proto'}",
        f"--python_out={root}",
        f"--pyi_out={root}",
        f"--grpc_python_out={root}",
        *(str(root / file) for file in files),
    ]
    if protoc.main(arguments) != 0:
        raise RuntimeError(f"protoc failed on {', '.join(files)}")
    for folder in {Path(file).parent.relative_to("protos") for file in files}:
        (root / folder / "__init__.py").write_text('"""Generated from protos/."""\n', encoding="utf-8")


if __name__ == "__main__":
    generate()
