"""A patch of a file: objects are merged, and whatever else stands in the patch takes the place of what was there.

Null is written where the type of the key has a null, such as "never". Everywhere else it takes the key out: an entry
of a mapping is gone then, and a setting is as it is by default. An object of another kind, by its tag, is not merged.
"""

from types import NoneType
from typing import Any, get_args, get_origin

from msgspec import structs

from holdfast.domain.content import Json
from holdfast.domain.validation import is_struct, type_alternatives


def merged(kind: Any, old: dict[str, Json], patch: dict[str, Json]) -> dict[str, Json]:
    """Return `old`, which can be read as a `kind`, with a patch of it."""
    new = dict(old)
    for key, value in patch.items():
        inner, there = _kind_of(kind, key), old.get(key)
        if value is None and NoneType not in type_alternatives(inner):
            new.pop(key, None)
        elif isinstance(value, dict) and isinstance(there, dict | None) and _is_object(inner):
            new[key] = merged(inner, there if there and _is_same(inner, there, value) else {}, value)
        else:
            new[key] = value
    return new


def _kind_of(kind: Any, key: str) -> Any:
    """Return the type of what stands under a key; of an unknown one, that of anything."""
    for one in type_alternatives(kind):
        if get_origin(one) is dict:
            return get_args(one)[1]
        for field in structs.fields(one) if is_struct(one) else ():
            if field.encode_name == key:
                return field.type
    return Any


def _is_object(kind: Any) -> bool:
    return any(get_origin(one) is dict or is_struct(one) for one in type_alternatives(kind))


def _is_same(kind: Any, old: dict[str, Json], patch: dict[str, Json]) -> bool:
    """Say whether a patch is about the same kind of thing: what has another tag has nothing in common with it."""
    tags = {one.__struct_config__.tag_field for one in type_alternatives(kind) if is_struct(one)}
    return all(patch.get(tag, old.get(tag)) == old.get(tag) for tag in tags if tag is not None)
