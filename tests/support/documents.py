"""What a document of docs/ says, as its tables, its names in backticks, and its blocks of code."""

import re
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"


def read(name):
    """The text of a document."""
    return (DOCS / name).read_text(encoding="utf-8")


def tables(text):
    """(the heading above, the rows as header → cell) of every table."""
    found, heading, header = [], "", None
    for line in text.splitlines():
        if line.startswith("#"):
            heading = line.lstrip("# ")
        if not line.startswith("|"):
            header = None
            continue
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if header is None:
            header = cells
            found.append((heading, []))
        elif set(line) - set("|-"):
            assert len(cells) == len(header), f"a row of {len(cells)} cells under {len(header)}: {line}"
            found[-1][1].append(dict(zip(header, cells, strict=True)))
    return found


def names(text):
    """What stands in backticks, in order."""
    return re.findall(r"`([^`\n]+)`", text)


def blocks(text, language):
    """The blocks of code of one language, "" for none."""
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
