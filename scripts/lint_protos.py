"""Checks protos/ against the rules that keep a wire readable: `python scripts/lint_protos.py`.

Package and folder agree; messages, services and enums are CamelCase, fields snake_case, enum values carry their
enum's name and start with UNSPECIFIED; field numbers run without gaps or are reserved; every import is used.
"""

import re
import sys
import tempfile
from collections.abc import Iterator
from importlib import resources
from pathlib import Path

from google.protobuf import descriptor_pb2
from grpc_tools import protoc

ROOT = Path(__file__).resolve().parent.parent
_CAMEL, _SNAKE = re.compile(r"([A-Z][a-z0-9]*)+"), re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*")


def main() -> int:
    """Prints one line a fault; 1 where there is any."""
    files = descriptors(ROOT / "protos")
    faults = [f"{file.name}: {fault}" for file in files for fault in check_file(file)]
    print("\n".join(faults) or f"{len(files)} proto files are well formed")
    return 1 if faults else 0


def descriptors(folder: Path) -> list[descriptor_pb2.FileDescriptorProto]:
    """Compiles every file of `folder`, warnings being errors."""
    names = sorted(str(path.relative_to(folder)) for path in folder.rglob("*.proto"))
    with tempfile.NamedTemporaryFile() as result:
        arguments = ["protoc", f"-I{folder}", f"-I{resources.files('grpc_tools') / '_proto'}", "--fatal_warnings"]
        if protoc.main([*arguments, f"--descriptor_set_out={result.name}", *names]) != 0:
            sys.exit("protoc refuses the files above")
        return list(descriptor_pb2.FileDescriptorSet.FromString(Path(result.name).read_bytes()).file)


def check_file(file: descriptor_pb2.FileDescriptorProto) -> Iterator[str]:
    """Yields what is wrong with one file."""
    if file.package.replace(".", "/") != str(Path(file.name).parent):
        yield f"package {file.package} does not match the folder"
    for service in file.service:
        if not service.name.endswith("Service") or not _CAMEL.fullmatch(service.name):
            yield f"service {service.name} should be CamelCase and end in Service"
        yield from (f"method {m.name} should be CamelCase" for m in service.method if not _CAMEL.fullmatch(m.name))
    for enum in file.enum_type:
        yield from check_enum(enum)
    for message in file.message_type:
        yield from check_message(message)


def check_enum(enum: descriptor_pb2.EnumDescriptorProto) -> Iterator[str]:
    """Yields what is wrong with one enum."""
    prefix = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", enum.name).upper() + "_"
    if enum.value[0].name != prefix + "UNSPECIFIED":
        yield f"enum {enum.name} should start with {prefix}UNSPECIFIED"
    yield from (f"enum value {v.name} should start with {prefix}" for v in enum.value if not v.name.startswith(prefix))


def check_message(message: descriptor_pb2.DescriptorProto) -> Iterator[str]:
    """Yields what is wrong with one message and those inside it."""
    if not _CAMEL.fullmatch(message.name):
        yield f"message {message.name} should be CamelCase"
    for field in message.field:
        if not _SNAKE.fullmatch(field.name):
            yield f"field {message.name}.{field.name} should be snake_case"
    reserved = {number for span in message.reserved_range for number in range(span.start, span.end)}
    used = {field.number for field in message.field}
    missing = sorted(set(range(1, max(used, default=0) + 1)) - used - reserved)
    if missing:
        yield f"message {message.name} leaves out the numbers {missing}; reserve them"
    for nested in message.nested_type:
        yield from check_message(nested)


if __name__ == "__main__":
    sys.exit(main())
