"""`frozen`: the decorator of frozen data, a dataclass that costs little to load.

A command loads some two hundred classes of data and makes instances of half of them. The standard
decorator compiles five or six methods for each class it meets, more than half a millisecond: a
quarter of the start of `explain`. Here `__init__` is compiled for the first instance, and the other
methods are closures. The classes are dataclasses to `dataclasses.replace`, `fields` and `asdict`,
to msgspec and to type checkers: the standard module describes their fields when somebody asks.
docs/decisions/0018-frozen-data.md has what was measured.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, FrozenInstanceError, field, make_dataclass
from inspect import get_annotations
from operator import attrgetter
from reprlib import recursive_repr
from types import MemberDescriptorType
from typing import Any, TypeVar, cast, dataclass_transform, overload

__all__ = ["frozen"]

T = TypeVar("T")


@overload
def frozen(kind: type[T], /) -> type[T]: ...
@overload
def frozen(
    *, kw_only: bool = False, eq: bool = True, slots: bool = True, weakref_slot: bool = False
) -> Callable[[type[T]], type[T]]: ...
@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def frozen(
    kind: type[T] | None = None,
    /,
    *,
    kw_only: bool = False,
    eq: bool = True,
    slots: bool = True,
    weakref_slot: bool = False,
) -> type[T] | Callable[[type[T]], type[T]]:
    """Make a class frozen data: `@frozen` is `@dataclass(frozen=True, slots=True)`, and faster.

    The options mean what they mean to the standard decorator. A class that keeps values by
    `cached_property` needs `slots=False`. Frozen data cannot be extended.
    """

    def make(kind: type[T]) -> type[T]:
        fields = _Fields(kind, kw_only)
        if slots:
            made = _with_slots(kind, fields.given, ("__weakref__",) if weakref_slot else ())
        else:
            made = _with_defaults(kind, fields.given)
        _add_methods(made, fields, eq)
        return made

    return make if kind is None else make(kind)


class _Fields:
    """The fields of a class; its attribute `__dataclass_fields__` is what the standard has."""

    def __init__(self, kind: type, kw_only: bool) -> None:
        if any(hasattr(base, "__dataclass_fields__") for base in kind.__bases__):
            raise TypeError(f"{kind.__name__} extends frozen data")
        self.name = kind.__name__
        self.kw_only = kw_only
        self.types: Mapping[str, Any] = {
            name: annotation
            for name, annotation in get_annotations(kind).items()
            if not str(annotation).startswith(("ClassVar", "typing.ClassVar"))
        }
        values = kind.__dict__
        self.given = {name: values.get(name, MISSING) for name in self.types}
        for name, value in self.given.items():
            if type(value).__hash__ is None:
                raise ValueError(
                    f"a mutable default of {kind.__name__}.{name}: use default_factory"
                )
        self._described: dict[str, Field[Any]] | None = None

    def __get__(self, instance: object, owner: type) -> dict[str, Field[Any]]:
        if self._described is None:
            specs = [(name, self.types[name], spec) for name, spec in self.specs().items()]
            same: Any = make_dataclass(
                self.name, specs, init=False, repr=False, eq=False, kw_only=self.kw_only
            )
            self._described = same.__dataclass_fields__
        return self._described or {}

    def specs(self) -> dict[str, Field[Any]]:
        """Return each field as `dataclasses.field` describes it."""
        return {
            name: given if isinstance(given, Field) else field(default=given)
            for name, given in self.given.items()
        }

    def where(self, wanted: Callable[[Field[Any]], bool]) -> tuple[str, ...]:
        """Return the names of fields without a `field`, and of those for which `wanted` is true."""
        given: dict[str, Any] = self.given
        return tuple(
            name
            for name, value in given.items()
            if not isinstance(value, Field) or wanted(cast("Field[Any]", value))
        )


def _with_slots(kind: type[T], given: Mapping[str, Any], more: tuple[str, ...]) -> type[T]:
    """Make the class anew: slots can be given to no class that exists."""
    left_out = {"__dict__", "__weakref__", *given}
    namespace = {name: value for name, value in kind.__dict__.items() if name not in left_out}
    namespace |= {"__slots__": (*given, *more), "__getstate__": _state, "__setstate__": _restore}
    made = type(kind)(kind.__name__, kind.__bases__, namespace)
    made.__qualname__ = kind.__qualname__
    return made


def _with_defaults(kind: type[T], given: Mapping[str, Any]) -> type[T]:
    for name, value in given.items():
        if isinstance(value, Field):
            default = cast("Field[Any]", value).default
            if default is MISSING:
                delattr(kind, name)
            else:
                setattr(kind, name, default)
    return kind


def _add_methods(kind: type, fields: _Fields, eq: bool) -> None:
    """Add the methods that the class does not define itself."""
    own = kind.__dict__
    methods: dict[str, Any] = {
        "__dataclass_fields__": fields,
        "__match_args__": () if fields.kw_only else fields.where(lambda given: given.init),
        "__setattr__": _refuse_to_set,
        "__delattr__": _refuse_to_delete,
    }
    if "__init__" not in own:
        methods["__init__"] = _first_init(kind, fields)
    if "__repr__" not in own:
        methods["__repr__"] = _representation(fields)
    if eq:
        key = _key(fields.where(lambda given: given.compare))
        if "__eq__" not in own:
            methods["__eq__"] = _equality(key)
        if own.get("__hash__") is None:
            methods["__hash__"] = _hash(key)
    for name, method in methods.items():
        setattr(kind, name, method)


def _first_init(kind: type, fields: _Fields) -> Callable[..., None]:
    """Return an `__init__` that puts a compiled one in its place."""

    def first(self: object, *values: object, **named: object) -> None:
        compiled: Any = _compiled_init(kind, fields)
        kind.__init__ = compiled
        compiled(self, *values, **named)

    return first


def _compiled_init(kind: type, fields: _Fields) -> Callable[..., None]:
    names: dict[str, Any] = {"MISSING": MISSING, "put": object.__setattr__}
    parameters = ["self", *(["*"] if fields.kw_only and fields.given else [])]
    lines: list[str] = []
    for name, spec in fields.specs().items():
        value = name
        if spec.default_factory is not MISSING:
            names[f"make_{name}"] = spec.default_factory
            value = f"make_{name}()"
            if spec.init:
                parameters.append(f"{name}=MISSING")
                value += f" if {name} is MISSING else {name}"
        elif spec.default is not MISSING:
            names[f"default_{name}"] = spec.default
            parameters.append(f"{name}=default_{name}")
        elif spec.init:
            parameters.append(name)
        else:
            continue  # __post_init__ sets it
        if isinstance(slot := kind.__dict__.get(name), MemberDescriptorType):
            names[f"put_{name}"] = slot.__set__  # faster than object.__setattr__
            lines.append(f"put_{name}(self, {value})")
        else:
            lines.append(f"put(self, {name!r}, {value})")
    if hasattr(kind, "__post_init__"):
        lines.append("self.__post_init__()")
    body = "\n ".join(lines or ["pass"])
    exec(f"def __init__({', '.join(parameters)}):\n {body}", names)  # noqa: S102 - fields' names
    compiled = names["__init__"]
    compiled.__qualname__ = f"{kind.__qualname__}.__init__"
    compiled.__module__ = kind.__module__
    return compiled


def _key(names: tuple[str, ...]) -> Callable[[Any], tuple[object, ...]]:
    """Return what gives the values of fields as a tuple."""
    if len(names) > 1:
        return attrgetter(*names)
    return lambda self: tuple(getattr(self, name) for name in names)


def _equality(key: Callable[[Any], object]) -> Callable[[object, object], bool]:
    def equal(self: object, other: object) -> bool:
        return key(self) == key(other) if type(other) is type(self) else NotImplemented

    return equal


def _hash(key: Callable[[Any], object]) -> Callable[[object], int]:
    def hashed(self: object) -> int:
        return hash(key(self))

    return hashed


def _representation(fields: _Fields) -> Callable[[object], str]:
    def show(self: object) -> str:
        names = fields.where(lambda given: given.repr)
        values = ", ".join(f"{name}={getattr(self, name)!r}" for name in names)
        return f"{type(self).__qualname__}({values})"

    return recursive_repr()(show)


def _refuse_to_set(_self: object, name: str, _value: object) -> None:
    raise FrozenInstanceError(f"cannot assign to field {name!r}")


def _refuse_to_delete(_self: object, name: str) -> None:
    raise FrozenInstanceError(f"cannot delete field {name!r}")


def _state(self: object) -> list[object]:
    return [getattr(self, name) for name in _stored(self)]


def _restore(self: object, state: list[object]) -> None:
    for name, value in zip(_stored(self), state, strict=True):
        object.__setattr__(self, name, value)


def _stored(self: object) -> list[str]:
    return [name for name in type(self).__dict__["__slots__"] if name != "__weakref__"]
