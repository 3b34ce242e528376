"""Bytes to plain values: files, directories and standard input, with the line of everything.

What is read is bounded (4 MiB, TOML 1 MiB, 50 levels, 250 000 keys and values a file) and never executed, and whatever
is wrong comes back as problems with file and line. One bad file does not keep the others from being read.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from calsched.declare.document import MAX_BYTES, MAX_BYTES_TOML, Document, Format, unreadable
from calsched.errors import Problem
from calsched.reading import Unreadable, content, real

SUFFIXES: dict[str, Format] = {".yaml": "yaml", ".yml": "yaml", ".json": "json", ".toml": "toml"}
#: Files of a directory that belong to something else, whatever their suffix.
NOT_DECLARATIONS = frozenset({"calsched.toml", "pyproject.toml"})
STDIN = "<stdin>"


def read(source: Path | bytes, format: Format | None = None, *, file: str | None = None) -> Document:
    """One file, or the bytes of one (standard input) under the name ``file``.

    Without ``format`` the suffix says it; bytes without a format are JSON where they begin with a brace or bracket,
    else YAML. Content never raises; look at ``Document.problems``.
    """
    if isinstance(source, bytes):
        return _from_bytes(source, file or STDIN, format or _guess(source))
    name = file or str(source)
    chosen = format or SUFFIXES.get(source.suffix.lower())
    try:
        data = content(source, MAX_BYTES)
    except Unreadable as error:
        return unreadable(name, Problem(str(error), file=name))
    if chosen is None:
        hint = f"name it {', '.join('*' + suffix for suffix in SUFFIXES)}, or say --input-format"
        return unreadable(name, Problem("the format is not known from the file's name", file=name, hint=hint))
    return _from_bytes(data, name, chosen)



def read_all(sources: Iterable[Path | str], format: Format | None = None) -> list[Document]:
    """Every file of a list of files and directories, each of them once, directories in the order of their names."""
    documents: list[Document] = []
    seen: set[Path] = set()
    for source in map(Path, sources):
        for place in _files(source):
            if isinstance(place, Document):
                documents.append(place)
            elif (found := real(place)) not in seen:
                seen.add(found)
                documents.append(read(place, format))
    return documents


def _files(source: Path) -> Sequence[Path | Document]:
    try:
        if not source.is_dir():
            return [source]
        found = [entry for entry in sorted(source.iterdir()) if _is_declaration(entry)]
    except OSError as error:
        return [unreadable(str(source), Problem(f"cannot be read: {error.strerror}", file=str(source)))]
    if found:
        return found
    message = f"no declaration files ({', '.join('*' + suffix for suffix in SUFFIXES)}) in this directory"
    return [unreadable(str(source), Problem(message, file=str(source)))]


def _is_declaration(entry: Path) -> bool:
    hidden = entry.name.startswith(".") or entry.name in NOT_DECLARATIONS
    return not hidden and entry.suffix.lower() in SUFFIXES and not entry.is_dir()


def _guess(data: bytes) -> Format:
    return "json" if data.lstrip()[:1] in (b"{", b"[") else "yaml"


def _from_bytes(data: bytes, file: str, format: Format) -> Document:
    bound = MAX_BYTES_TOML if format == "toml" else MAX_BYTES
    if len(data) > bound:
        return unreadable(file, Problem(f"larger than {bound // 1024**2} MiB", file=file))
    if (at := data.find(b"\0")) >= 0:
        return unreadable(file, Problem("not text: it has a NUL byte", file=file, line=data.count(b"\n", 0, at) + 1))
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        return unreadable(file, Problem("not UTF-8 text", file=file, line=line, hint="save it as UTF-8"))
    return _READERS[format](text, file)


def _yaml(text: str, file: str) -> Document:
    from calsched.declare.read_yaml import read_yaml

    return read_yaml(text, file)


def _json(text: str, file: str) -> Document:
    from calsched.declare.read_json import read_json

    return read_json(text, file)


def _toml(text: str, file: str) -> Document:
    from calsched.declare.read_toml import read_toml

    return read_toml(text, file)


_READERS = {"yaml": _yaml, "json": _json, "toml": _toml}
