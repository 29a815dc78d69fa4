"""Hypothesis strategies for msgspec types and pydantic models, derived from their definitions."""

from enum import Enum
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, Final, Literal, Union, get_args, get_origin

import msgspec
from hypothesis import strategies as st
from msgspec import inspect
from pydantic import BaseModel

from holdfast.domain.events.messages import AgUiInterrupt, InterruptOutcome

MAX_SAFE: Final = 2**53 - 1

words: Final = st.text(max_size=6)
json_values: Final = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(min_value=-MAX_SAFE, max_value=MAX_SAFE)
    | st.floats(allow_nan=False, allow_infinity=False)
    | words,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(words, inner, max_size=2),
    max_leaves=4,
)
objects: Final = st.dictionaries(words, json_values, max_size=2)
present_values: Final = json_values.filter(lambda value: value is not None)
pointers: Final = st.lists(st.sampled_from(["a", "b~0", "~1", "", "0", "-"]), max_size=3).map(
    lambda tokens: "".join(f"/{token}" for token in tokens)
)


@cache
def structs(type_: type[msgspec.Struct]) -> st.SearchStrategy[Any]:
    """Return a strategy for `type_`: each optional field is set or not."""
    return _struct(inspect.type_info(type_))


@cache
def models(type_: type[BaseModel], *, optional: bool | None = None) -> st.SearchStrategy[Any]:
    """Return a strategy for `type_` with all its optional fields, none, or any of them."""
    fields: dict[str, st.SearchStrategy[Any]] = {}
    for name, field in type_.model_fields.items():
        constant = get_origin(field.annotation) is Literal and not field.is_required()
        if constant or (optional is False and not field.is_required()):
            continue
        value = pointers if name in ("path", "from_") else _annotated(name, field.annotation, optional)
        maybe = optional is None and not field.is_required()
        fields[name] = st.none() | value if maybe else value
    return st.fixed_dictionaries(fields).map(lambda values: type_(**values))


def _struct(info: inspect.Type) -> st.SearchStrategy[Any]:
    assert isinstance(info, inspect.StructType)
    required = {field.name: _inspected(field.type) for field in info.fields if field.required}
    optional = {field.name: _inspected(field.type) for field in info.fields if not field.required}
    if info.cls is InterruptOutcome:
        required = {"interrupts": st.lists(structs(AgUiInterrupt), min_size=1, max_size=2)}
    return st.fixed_dictionaries(required, optional=optional).map(lambda fields: info.cls(**fields))


def _inspected(info: inspect.Type) -> st.SearchStrategy[Any]:
    match info:
        case inspect.StructType():
            return structs(info.cls)
        case inspect.UnionType(types=types) if inspect.BoolType() in types:
            return present_values
        case inspect.UnionType(types=types):
            return st.one_of([_inspected(each) for each in types])
        case inspect.ListType(item_type=item) | inspect.VarTupleType(item_type=item):
            items = st.lists(_inspected(item), max_size=2)
            return items if isinstance(info, inspect.ListType) else items.map(tuple)
        case inspect.LiteralType(values=values):
            return st.sampled_from(values)
        case inspect.EnumType(cls=enum):
            return st.sampled_from(list[Enum](enum))
        case _:
            return _plain(info)


def _plain(info: inspect.Type) -> st.SearchStrategy[Any]:
    match info:
        case inspect.StrType(pattern=None):
            return words
        case inspect.StrType():
            return pointers
        case inspect.IntType(ge=least):
            return st.integers(min_value=-MAX_SAFE if least is None else least, max_value=MAX_SAFE)
        case inspect.FloatType():
            return st.floats(allow_nan=False, allow_infinity=False)
        case inspect.BoolType():
            return st.booleans()
        case inspect.NoneType():
            return st.none()
        case inspect.DictType():
            return objects
        case inspect.AnyType():
            return json_values
        case _:
            raise NotImplementedError(info)


def _annotated(name: str, annotation: Any, optional: bool | None) -> st.SearchStrategy[Any]:
    origin, args = get_origin(annotation), get_args(annotation)
    if name == "metadata":
        return objects
    if origin is Annotated:
        return _annotated(name, args[0], optional)
    if origin in (Union, UnionType):
        kinds = [each for each in args if each is not NoneType]
        return st.one_of([_annotated(name, each, optional) for each in kinds])
    if origin is list:
        return st.lists(_annotated(name, args[0], optional), min_size=1, max_size=2)
    if origin is Literal:
        return st.sampled_from(args)
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return models(annotation, optional=optional)
    return _scalar(annotation)


def _scalar(annotation: Any) -> st.SearchStrategy[Any]:
    if annotation is str:
        return words
    if annotation is bool:
        return st.booleans()
    if annotation is int:
        return st.integers(min_value=0, max_value=MAX_SAFE)
    return objects if get_origin(annotation) is dict else present_values
