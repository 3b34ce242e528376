"""Read a pickle without unpickling it: nothing is imported, nothing is called, nothing is built but inert records.

A pickle is a program for a stack machine, and loading one runs whatever it names. This reader walks the same opcodes
and only writes down what they would have done: a name is two strings (``Name``), a call or an object is a ``Thing``
that holds its name and its parts, a dictionary is a list of pairs (``Pairs``, so that hostile keys are never hashed
or compared). Input size, nesting, numbers of opcodes and integers are bounded; persistent ids, extension codes and
out-of-band buffers are refused. Protocols 0 to 5 are understood.
"""

from __future__ import annotations

import pickletools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

#: Bounds. A job of APScheduler is a few kilobytes; its arguments rarely more than that.
MAX_BYTES: Final = 4 * 1024 * 1024
MAX_OPCODES: Final = 100_000
MAX_INT_BITS: Final = 1024


class Unreadable(Exception):
    """The bytes are no pickle, or one with opcodes that no job store writes. ``str()`` says what was found."""


@dataclass(frozen=True, slots=True)
class Name:
    """A module and a qualified name, as two strings. Nothing is looked up. No tuple, lest it pass for a value."""

    module: str
    name: str

    def __str__(self) -> str:
        return shorten(f"{self.module}.{self.name}")


@dataclass(slots=True, eq=False)
class Pairs:
    """A dictionary that was never built."""

    pairs: list[tuple[Any, Any]] = field(default_factory=list)

    def get(self, key: str, default: Any = None) -> Any:
        """The last value under a text key, as a dictionary would have it."""
        for name, value in reversed(self.pairs):
            if isinstance(name, str) and name == key:
                return value
        return default


@dataclass(slots=True, eq=False)
class Thing:
    """A call or an object: what would have been called, with what, and what was put into it afterwards."""

    name: Name
    args: Any = ()
    kwargs: Any = None
    state: Any = None
    items: list[Any] = field(default_factory=list)
    pairs: list[tuple[Any, Any]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Read:
    """What a pickle holds, and every distinct name that it mentions, in order."""

    value: Any
    names: tuple[Name, ...]


def read(data: bytes) -> Read:
    """What ``pickle.loads`` would have made of these bytes, as inert records; raises Unreadable."""
    if len(data) > MAX_BYTES:
        raise Unreadable(f"{len(data)} bytes; at most {MAX_BYTES} are read")
    machine = _Machine()
    try:
        for count, (code, argument, position) in enumerate(_opcodes(data)):
            if count >= MAX_OPCODES:
                raise Unreadable(f"more than {MAX_OPCODES} opcodes")
            if machine.step(code, argument, position):
                return Read(machine.result(), tuple(machine.names))
    except IndexError:
        raise Unreadable("no pickle: an opcode takes from an empty stack") from None
    raise Unreadable("no pickle: it ends without STOP")


def shorten(text: str, limit: int = 120) -> str:
    """A text from a hostile source, fit to be shown: printable characters only, and not too many."""
    shown = text if text.isprintable() else repr(text)[1:-1]
    return shown if len(shown) <= limit else shown[: limit - 1] + "…"


def _opcodes(data: bytes) -> Iterator[tuple[str, Any, int]]:
    try:
        for opcode, argument, position in pickletools.genops(data):
            yield opcode.name, argument, position or 0
    except (ValueError, OverflowError, EOFError) as broken:  # a truncated argument, an unknown opcode, bad UTF-8
        raise Unreadable(f"no pickle: {shorten(str(broken))}") from None


class _Mark:
    __slots__ = ()


_MARK: Final = _Mark()
_CONSTANTS: Final[dict[str, Any]] = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False, "EMPTY_TUPLE": ()}
_FRESH: Final[dict[str, Callable[[], Any]]] = {
    "EMPTY_LIST": list,
    "EMPTY_DICT": Pairs,
    "EMPTY_SET": lambda: Thing(Name("builtins", "set")),
}
_NUMBERS: Final = frozenset({"INT", "BININT", "BININT1", "BININT2", "LONG", "LONG1", "LONG4", "FLOAT", "BINFLOAT"})
_TEXTS: Final = frozenset({"UNICODE", "SHORT_BINUNICODE", "BINUNICODE", "BINUNICODE8", "STRING", "BINSTRING"})
_LITERALS: Final = _NUMBERS | _TEXTS | {"SHORT_BINSTRING", "SHORT_BINBYTES", "BINBYTES", "BINBYTES8"}
_PUTS: Final = frozenset({"PUT", "BINPUT", "LONG_BINPUT"})
_GETS: Final = frozenset({"GET", "BINGET", "LONG_BINGET"})
_TUPLES: Final = {"TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}
_IGNORED: Final = frozenset({"PROTO", "FRAME"})
#: Protocols 0 to 2 spell modules as Python 2 did.
_RENAMED: Final = {"__builtin__": "builtins", "copy_reg": "copyreg"}


class _Machine:
    """The stack, the memo, and the names seen. Each opcode does a constant amount of work for each byte it has."""

    def __init__(self) -> None:
        self.stack: list[Any] = []
        self.memo: dict[int, Any] = {}
        self.names: dict[Name, None] = {}

    def step(self, code: str, argument: Any, position: int) -> bool:
        """Obey one opcode; True for STOP."""
        if code in _LITERALS:
            self.stack.append(_literal(argument))
        elif code in _CONSTANTS:
            self.stack.append(_CONSTANTS[code])
        elif code in _FRESH:
            self.stack.append(_FRESH[code]())
        elif code in _PUTS:
            self.memo[argument] = self.top()
        elif code in _GETS:
            self.stack.append(self.remembered(argument))
        elif code in _TUPLES:
            self.stack.append(self.take(_TUPLES[code]))
        elif code in _IGNORED:
            pass
        elif code == "STOP":
            return True
        else:
            self.obey(code, argument, position)
        return False

    def obey(self, code: str, argument: Any, position: int) -> None:
        action = _ACTIONS.get(code)
        if action is None:
            raise Unreadable(f"opcode {code} at byte {position}, which no job store writes")
        action(self, argument)

    def result(self) -> Any:
        value = self.pop()
        if self.stack:
            raise Unreadable("no pickle: values are left over at STOP")
        return value

    def pop(self) -> Any:
        value = self.stack.pop()
        if value is _MARK:
            raise Unreadable("no pickle: a mark where a value belongs")
        return value

    def top(self) -> Any:
        value = self.stack[-1]
        if value is _MARK:
            raise Unreadable("no pickle: a mark where a value belongs")
        return value

    def take(self, count: int) -> tuple[Any, ...]:
        return tuple(self.pop() for _ in range(count))[::-1]

    def since_mark(self) -> list[Any]:
        at = len(self.stack) - 1
        while self.stack[at] is not _MARK:
            at -= 1
            if at < 0:
                raise Unreadable("no pickle: no mark on the stack")
        values = self.stack[at + 1 :]
        del self.stack[at:]
        return values

    def remembered(self, index: int) -> Any:
        if index not in self.memo:
            raise Unreadable(f"no pickle: memo {index} was never stored")
        return self.memo[index]

    def name(self, module: str, name: str) -> None:
        found = Name(_RENAMED.get(module, module), name)
        self.names.setdefault(found)
        self.stack.append(found)

    def global_(self, argument: str) -> None:
        module, _, name = argument.partition(" ")
        self.name(module, name)

    def stack_global(self) -> None:
        module, name = self.take(2)
        if not (isinstance(module, str) and isinstance(name, str)):
            raise Unreadable("a global whose module or name is no text")
        self.name(module, name)

    def call(self) -> None:
        what, args = self.take(2)
        if not isinstance(what, Name):
            raise Unreadable(f"a call of {describe(what)}")
        self.stack.append(_called(what, args, self.names))

    def new(self, keywords: bool) -> None:
        kwargs = self.pop() if keywords else None
        cls, args = self.take(2)
        if not isinstance(cls, Name) or not isinstance(args, tuple):
            raise Unreadable(f"an object of {describe(cls)}, made with {describe(args)}")
        self.stack.append(Thing(cls, args, kwargs))

    def build(self) -> None:
        state = self.pop()
        target = self.top()
        if not isinstance(target, Thing):
            raise Unreadable(f"a state for {describe(target)}")
        if target.state is not None:
            raise Unreadable(f"two states for {target.name}")
        target.state = state

    def append(self, values: list[Any]) -> None:
        target = self.top()
        if isinstance(target, list):
            target.extend(values)
        elif isinstance(target, Thing):
            target.items.extend(values)
        else:
            raise Unreadable(f"items for {describe(target)}")

    def set_items(self, values: list[Any]) -> None:
        target = self.top()
        if not isinstance(target, (Pairs, Thing)):
            raise Unreadable(f"keys for {describe(target)}")
        target.pairs.extend(_in_pairs(values))


def _called(what: Name, args: Any, names: dict[Name, None]) -> Any:
    """What a call yields. Four calls only spell something that newer protocols have an opcode for."""
    if not isinstance(args, tuple):
        raise Unreadable(f"a call of {what} without an argument tuple")
    if what == Name("builtins", "getattr") and [type(part) for part in args] == [Name, str]:
        inner = Name(args[0].module, f"{args[0].name}.{args[1]}")
        names.setdefault(inner)
        return inner
    if what == Name("_codecs", "encode") and len(args) == 2 and isinstance(args[0], str) and args[1] == "latin1":
        return _latin1(args[0])
    if what == Name("builtins", "bytes") and not args:
        return b""
    if what == Name("copyreg", "_reconstructor") and len(args) == 3 and isinstance(args[0], Name):
        return Thing(args[0])
    return Thing(what, args)


def _latin1(text: str) -> bytes:
    try:
        return text.encode("latin-1")
    except UnicodeEncodeError:
        raise Unreadable("bytes spelled with characters that are none") from None


def _literal(value: Any) -> Any:
    if isinstance(value, int) and value.bit_length() > MAX_INT_BITS:
        raise Unreadable(f"an integer of {value.bit_length()} bits")
    return value


def _in_pairs(values: list[Any]) -> list[tuple[Any, Any]]:
    if len(values) % 2:
        raise Unreadable("no pickle: a key without a value")
    return list(zip(values[::2], values[1::2], strict=True))


def describe(value: Any) -> str:
    """A few words for an inert record; never walks into it."""
    if value is None:
        return "nothing"
    if isinstance(value, Thing):
        return f"an object of {value.name}"
    if isinstance(value, Name):
        return str(value)
    if isinstance(value, Pairs):
        return "a dictionary"
    return f"a value of type {type(value).__name__}"


def _empty_set_frozen(machine: _Machine, _: Any) -> None:
    machine.stack.append(Thing(Name("builtins", "frozenset"), items=machine.since_mark()))


_ACTIONS: Final[dict[str, Callable[[_Machine, Any], None]]] = {
    "MARK": lambda m, _: m.stack.append(_MARK),
    "POP": lambda m, _: _drop(m.stack),
    "POP_MARK": lambda m, _: _drop_all(m.since_mark()),
    "DUP": lambda m, _: m.stack.append(m.top()),
    "MEMOIZE": lambda m, _: m.memo.__setitem__(len(m.memo), m.top()),
    "TUPLE": lambda m, _: m.stack.append(tuple(m.since_mark())),
    "LIST": lambda m, _: m.stack.append(m.since_mark()),
    "DICT": lambda m, _: m.stack.append(Pairs(_in_pairs(m.since_mark()))),
    "FROZENSET": _empty_set_frozen,
    "BYTEARRAY8": lambda m, argument: m.stack.append(Thing(Name("builtins", "bytearray"), (bytes(argument),))),
    "APPEND": lambda m, _: m.append([m.pop()]),
    "APPENDS": lambda m, _: m.append(m.since_mark()),
    "ADDITEMS": lambda m, _: m.append(m.since_mark()),
    "SETITEM": lambda m, _: m.set_items(list(m.take(2))),
    "SETITEMS": lambda m, _: m.set_items(m.since_mark()),
    "GLOBAL": lambda m, argument: m.global_(argument),
    "STACK_GLOBAL": lambda m, _: m.stack_global(),
    "REDUCE": lambda m, _: m.call(),
    "NEWOBJ": lambda m, _: m.new(False),
    "NEWOBJ_EX": lambda m, _: m.new(True),
    "BUILD": lambda m, _: m.build(),
}


def _drop(stack: list[Any]) -> None:
    stack.pop()


def _drop_all(values: list[Any]) -> None:
    values.clear()
