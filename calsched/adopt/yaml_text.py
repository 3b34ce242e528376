"""An adoption as a declaration file: YAML that ``calsched check`` reads, with comments for people."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

from calsched.adopt.result import Adopted, Adoption

#: What YAML cannot hold as it is, or takes for the end of a line (also U+2028 and U+2029).
_UNPRINTABLE = re.compile(r"[^\x20-\x7e\xa0-\u2027\u202a-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]")


def to_yaml(adoption: Adoption, *, title: str = "") -> str:
    """The text of a declaration file; what was refused stands at its end, so that nothing is lost."""
    parts = ["\n".join(_head(adoption, title))]
    parts += ["\n".join(_schedule(adopted)) for adopted in adoption.schedules]
    if adoption.refused:
        lines = [str(problem) for problem in adoption.refused]
        parts.append("\n".join(["# Not carried over:", *_comments(lines, "", bullet="- ")]))
    return "\n\n".join(parts) + "\n"


def _head(adoption: Adoption, title: str) -> Iterator[str]:
    yield from _comments([title] if title else [])
    yield from _comments(adoption.comments)
    yield from _comments(adoption.notes, bullet="- ")
    if adoption.timezone is not None:
        yield _dump({"timezone": adoption.timezone})
    yield "schedules:" if adoption.schedules else "schedules: {}"


def _schedule(adopted: Adopted) -> Iterator[str]:
    yield from _comments(adopted.comments, "  ")
    place = f"line {adopted.line}: " if adopted.line is not None else ""
    yield from _comments([f"{place}{adopted.was}"], "  ")
    yield from _comments(adopted.notes, "  ", bullet="- ")
    yield "\n".join(f"  {line}" for line in _dump({adopted.id: adopted.body}).split("\n"))


def _comments(lines: Iterable[str], indent: str = "", bullet: str = "") -> Iterator[str]:
    """Comment lines. A line break or a control character of the source cannot end the comment."""
    for line in lines:
        clean = _UNPRINTABLE.sub("\N{REPLACEMENT CHARACTER}", line.replace("\t", " ")).rstrip()
        yield f"{indent}# {bullet}{clean}".rstrip()


def _dump(plain: dict[str, Any]) -> str:
    """Block style for mappings of mappings, flow style for short lists; every text that needs quotes gets them."""
    import yaml

    class Dumper(yaml.SafeDumper):
        def ignore_aliases(self, data: Any) -> bool:
            return True

        def represent_sequence(self, tag: str, sequence: Any, flow_style: bool | None = None) -> Any:
            short = all(not isinstance(item, (list, dict)) for item in sequence)
            return super().represent_sequence(tag, sequence, flow_style=short)

        def represent_scalar(self, tag: str, value: Any, style: str | None = None) -> Any:
            escaped = isinstance(value, str) and not value.isprintable()
            return super().represent_scalar(tag, value, style='"' if escaped else style)

    text = yaml.dump(plain, None, Dumper, sort_keys=False, allow_unicode=True, width=110, default_flow_style=False)
    return text.rstrip("\n")
