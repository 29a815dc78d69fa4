"""JSON Schemas, bounded so that none can stall the process: schemas and values may come from strangers.

A schema of a kilobyte can cost minutes, such as `allOf` of two references to an `allOf` of two references, and so on.
So its size, depth, references and patterns are limited before it is compiled, patterns run in a linear engine, and a
value is checked only if the evaluations that it can cause stay below a limit. A linear engine is not always a quick
one: its time grows with the pattern times the text, so that characters are counted with the patterns that meet them.
"""

from collections.abc import Callable, Iterator
from functools import lru_cache
from itertools import islice
from typing import Final, TypeAlias

import jsonschema_rs
import msgspec

from holdfast.domain.content import Json
from holdfast.domain.errors import Invalid
from holdfast.domain.linear_regex import LinearRegex

MAX_SCHEMA_BYTES: Final = 64 * 1024
MAX_SCHEMA_DEPTH: Final = 64
MAX_SUBSCHEMAS: Final = 4_000
MAX_REFERENCES: Final = 500
MAX_COSTS: Final = 20_000
"""Subschemas times the nesting depth of a value, for which evaluations are counted."""
MAX_EVALUATIONS: Final = 1_000_000
"""Evaluations of a subschema for a part of a value, estimated from above, that one check may cost: some 50 ms."""
MAX_EXPLAINED_EVALUATIONS: Final = 5_000
"""Evaluations up to which every problem of a value is explained: each explanation costs some 10 µs."""
MAX_EXPLAINED_BYTES: Final = 16 * 1024 * 1024
"""Bytes that all explanations may copy: each may contain the whole value, or a constant of the schema; some 30 ms."""
MAX_PATTERNS: Final = 200
MAX_PATTERN_BYTES: Final = 1024 * 1024
"""Memory of one compiled pattern."""
MAX_PATTERNS_BYTES: Final = 2 * 1024 * 1024
"""Memory of all compiled patterns of a schema: a megabyte takes some 3 ms to compile."""

_Schema: TypeAlias = dict[str, Json]
_CHARS_PER_EVALUATION: Final = 64
"""Characters of a string that cost as much as one more value."""
_ALTERNATIVES: Final = ("anyOf", "oneOf")
_IN_PLACE: Final = ("not", "if", "then", "else")
_IN_PLACE_MAPS: Final = ("dependentSchemas", "dependencies")
_DEPENDENT_NAMES: Final = ("dependentRequired", "dependencies")
_UNEVALUATED: Final = ("unevaluatedItems", "unevaluatedProperties")
_PARTS: Final = ("additionalItems", "additionalProperties", "contains", "items", "prefixItems", "propertyNames")
_REFERENCES: Final = ("$ref", "$dynamicRef", "$recursiveRef")
_ANCHORS: Final = ("$anchor", "$dynamicAnchor")
_REPETITION: Final = LinearRegex(r"(\)?)\{([0-9]{1,9})(?:,([0-9]{0,9}))?\}")
_UNICODE_CLASS: Final = LinearRegex(r"\\[pP]")
_STATES_PER_EVALUATION: Final = 5
"""States of a pattern that cost, for one character, as much as one evaluation."""
_STATES_PER_CHAR: Final = 2
"""States that a character of a pattern becomes, by measurement."""
_STATES_PER_UNICODE_CLASS: Final = 100


class BoundedSchema:
    """A compiled schema."""

    def __init__(self, encoded: bytes) -> None:
        """Compile a schema; raise `Invalid` if it is not one, or exceeds a limit."""
        if len(encoded) > MAX_SCHEMA_BYTES:
            raise Invalid(f"the schema is longer than {MAX_SCHEMA_BYTES} bytes")
        self.encoded = encoded
        schema = msgspec.json.decode(encoded)
        if _nesting(schema) > MAX_SCHEMA_DEPTH:
            raise Invalid(f"the schema is nested deeper than {MAX_SCHEMA_DEPTH}")
        self._costs = _EvaluationCosts(schema, _own_cost)
        self._pattern_costs = _EvaluationCosts(schema, _own_pattern_cost)
        if self._costs.at(1) > MAX_EVALUATIONS:
            raise Invalid("the schema multiplies its subschemas: no value could be checked against it in time")
        patterns = _Patterns(sum(1 for _ in self._costs.patterns()))
        try:
            self._validator = patterns.compile(schema)
        except ValueError:  # it may be about a pattern with look-around, which only its owner can check
            try:
                self._validator = patterns.compile(patterns.without_lookaround(schema))
            except jsonschema_rs.ValidationError as exc:
                place = ".".join(map(str, exc.instance_path)) or "the schema"
                raise ValueError(f"`{place}`: {exc.message}") from exc  # its own text has several lines

    def is_cheap(self, value: Json, *, max_evaluations: int) -> bool:
        """Return whether a check of a value takes at most so many evaluations, its patterns included."""
        size = _measure(value, max_values=max_evaluations)
        return size is not None and self._evaluations(size) + self._pattern_evaluations(size) <= max_evaluations

    def errors(self, value: Json, *, limit: int) -> list[jsonschema_rs.ValidationError]:
        """Return the first `limit` problems of a value; raise `Invalid` if it is too large to be checked."""
        size = _measure(value, max_values=MAX_EVALUATIONS)
        evaluations = MAX_EVALUATIONS + 1 if size is None else self._evaluations(size)
        if evaluations > MAX_EVALUATIONS:
            raise Invalid("the value is too large or too deep to be checked against its schema: send less at once")
        if self._validator.is_valid(value):
            return []
        if size is not None and self._can_explain(size):
            return list(islice(self._validator.iter_errors(value), limit))
        try:
            self._validator.validate(value)
        except jsonschema_rs.ValidationError as first:
            return [first]
        return []

    def _can_explain(self, size: "_ValueSize") -> bool:
        """Return whether all problems of a value can be explained, although the library does not stop at a limit."""
        problems = size.values * self._costs.at(size.depth)
        copied = problems * (size.chars + size.values + len(self.encoded))
        return self._evaluations(size) <= MAX_EXPLAINED_EVALUATIONS and copied <= MAX_EXPLAINED_BYTES

    def _evaluations(self, size: "_ValueSize") -> int:
        return (size.values + size.chars // _CHARS_PER_EVALUATION) * self._costs.at(size.depth)

    def _pattern_evaluations(self, size: "_ValueSize") -> int:
        return size.chars * (self._pattern_costs.at(size.depth) - 1) // _STATES_PER_EVALUATION


compile_schema: Final = lru_cache(maxsize=512)(BoundedSchema)
"""Returns the compiled form of an encoded schema."""


class _EvaluationCosts:
    """What the subschemas of a schema cost for one value at most, by the nesting depth of the value."""

    def __init__(self, schema: Json, own_cost: Callable[[_Schema], int]) -> None:
        """Count the evaluations of each subschema by its own cost, without those of its parts."""
        self._root, self._own_cost = schema, own_cost
        self._subschemas = [found for found in _subschemas(schema) if isinstance(found, dict)]
        if len(self._subschemas) > MAX_SUBSCHEMAS:
            raise Invalid(f"the schema has more than {MAX_SUBSCHEMAS} subschemas")
        if any("$id" in found for found in self._subschemas[1:]):
            raise Invalid("the schema has a nested `$id`: write references as `#/…`")
        self._anchors = {found[name]: found for found in self._subschemas for name in _ANCHORS if name in found}
        references = [self._resolve(found[name]) for found in self._subschemas for name in _REFERENCES if name in found]
        if len(references) > MAX_REFERENCES:
            raise Invalid(f"the schema has more than {MAX_REFERENCES} references")
        known = {id(found) for found in self._subschemas}
        for target in references:
            if isinstance(target, dict) and id(target) not in known:
                raise Invalid("a `$ref` of the schema refers to something that is not a subschema")
        if sum(1 for _ in self.patterns()) > MAX_PATTERNS:
            raise Invalid(f"the schema has more than {MAX_PATTERNS} patterns")
        self._by_depth: list[dict[int, int]] = []
        self.at(0)

    def patterns(self) -> Iterator[str]:
        """Yield the patterns of all subschemas."""
        for found in self._subschemas:
            yield from _patterns(found)

    def at(self, depth: int) -> int:
        """Return the cost of a value of this nesting depth."""
        while len(self._by_depth) <= depth:
            if len(self._by_depth) > 1 and self._by_depth[-1] == self._by_depth[-2]:
                break  # deeper values cost the same
            if len(self._by_depth) * len(self._subschemas) > MAX_COSTS:
                return MAX_EVALUATIONS + 1
            self._by_depth.append({})
            try:
                for found in self._subschemas:
                    self._cost(found, len(self._by_depth) - 1)
            except RecursionError as exc:
                raise Invalid("the schema has too many references in a row") from exc
        return self._by_depth[-1].get(id(self._root), 1)

    def _cost(self, schema: Json, depth: int) -> int:
        if not isinstance(schema, dict):
            return 1
        costs = self._by_depth[depth]
        known = costs.get(id(schema))
        if known is not None:
            if known == 0:
                raise Invalid("the schema refers to itself without a property or item in between")
            return known
        costs[id(schema)] = 0
        in_place = sum(self._cost(part, depth) * weight for part, weight in self._in_place(schema))
        total = self._own_cost(schema) + in_place
        total *= 2 if any(name in schema for name in _UNEVALUATED) else 1
        if depth:
            deeper = self._by_depth[depth - 1]
            properties = (deeper.get(id(part), 1) for part in _values(schema.get("properties")))
            # A part of the value has one name, so of the properties only one applies; of the others all may.
            total += max(properties, default=0) + sum(deeper.get(id(part), 1) for part in _parts(schema))
        costs[id(schema)] = min(total, MAX_EVALUATIONS + 1)
        return costs[id(schema)]

    def _in_place(self, schema: _Schema) -> Iterator[tuple[Json, int]]:
        """Yield the subschemas that apply to the same value, and how often they are evaluated."""
        for part in _values(schema.get("allOf")):
            yield part, 1
        for name in _ALTERNATIVES:
            yield from ((part, 2) for part in _values(schema.get(name)))  # once to decide, once to explain
        for name in _IN_PLACE:
            if name in schema:
                yield schema[name], 2
        for name in _IN_PLACE_MAPS:
            yield from ((part, 1) for part in _values(schema.get(name)))
        for name in _REFERENCES:
            if name in schema:
                yield self._resolve(schema[name]), 1

    def _resolve(self, reference: Json) -> Json:
        """Return the target of a reference within the schema."""
        if not isinstance(reference, str) or not reference.startswith("#"):
            raise Invalid(
                f"the schema refers to `{str(reference)[:100]}`: only references within it (`#/…`) are followed"
            )
        if reference[1:] in self._anchors:
            return self._anchors[reference[1:]]
        target = self._root
        for step in reference[1:].split("/")[1:]:
            name = step.replace("~1", "/").replace("~0", "~")
            if isinstance(target, dict) and name in target:
                target = target[name]
            elif isinstance(target, list) and name.isdigit() and int(name) < len(target):
                target = target[int(name)]
            else:
                raise Invalid(f"the schema has nothing at `{reference[:100]}`")
        return target


def _parts(schema: _Schema) -> Iterator[Json]:
    """Yield the subschemas that may apply to any part of a value."""
    for name in (*_PARTS, *_UNEVALUATED):
        part = schema.get(name)
        if isinstance(part, list):
            yield from part
        elif part is not None:
            yield part
    yield from _values(schema.get("patternProperties"))


def _subschemas(schema: Json) -> Iterator[Json]:
    """Yield every object in a schema, the outermost first: any of them may be the target of a reference."""
    pending = [schema]
    for found in pending:
        if isinstance(found, dict):
            yield found
        pending.extend(part for part in _values(found) if isinstance(part, dict | list))


def _values(value: Json) -> list[Json]:
    match value:
        case dict():
            return list(value.values())
        case list():
            return value
        case _:
            return []


def _own_cost(schema: _Schema) -> int:
    """Return one, and the number of comparisons that a schema makes itself."""
    compared = [*_values(schema.get("enum")), schema.get("const")]
    sizes = (1 + len(msgspec.json.encode(value)) // _CHARS_PER_EVALUATION for value in compared)
    dependent = (names for name in _DEPENDENT_NAMES for names in _values(schema.get(name)) if isinstance(names, list))
    return sum(sizes) + len(_values(schema.get("required"))) + sum(1 + len(names) for names in dependent)


def _own_pattern_cost(schema: _Schema) -> int:
    """Return the states of the patterns that a schema itself matches with a text, at least one."""
    formats = {"regex": _STATES_PER_UNICODE_CLASS}  # `regex` compiles the text
    text_format = schema.get("format")
    format_cost = formats.get(text_format, _STATES_PER_EVALUATION) if isinstance(text_format, str) else 0
    return 1 + sum(map(_states, _patterns(schema))) + format_cost


def _patterns(schema: _Schema) -> Iterator[str]:
    if isinstance(pattern := schema.get("pattern"), str):
        yield pattern
    if isinstance(by_pattern := schema.get("patternProperties"), dict):
        yield from by_pattern


def _states(pattern: str) -> int:
    """Return the number of states of a compiled pattern, estimated from above."""
    length, factor = len(pattern), 1
    for group, least, most in (match.groups() for match in _REPETITION.finditer(pattern)):
        times = max(int(least), int(most or 0), 1)
        if group:
            factor = min(factor * times, MAX_EVALUATIONS)
        else:
            length += times
    per_char = _STATES_PER_UNICODE_CLASS if _UNICODE_CLASS.search(pattern) else _STATES_PER_CHAR
    return min(length * factor * per_char, MAX_EVALUATIONS)


def _nesting(value: Json) -> int:
    depth, level = 0, [value]
    while level:
        level = [part for outer in level for part in _values(outer)]
        depth += 1
    return depth


class _ValueSize(msgspec.Struct, frozen=True):
    values: int
    chars: int
    """Characters of all texts, the names of properties included."""
    depth: int


def _measure(value: Json, *, max_values: int) -> _ValueSize | None:
    """Return the size of a value, or null if it has more than so many values."""
    values, chars, depth, level = 0, 0, -1, [value]
    while level:
        depth += 1
        values += len(level)
        deeper: list[Json] = []
        for part in level:
            if isinstance(part, str):
                chars += len(part)
            elif isinstance(part, dict):
                chars += sum(map(len, part))
                deeper += part.values()
            elif isinstance(part, list):
                deeper += part
            if values + len(deeper) > max_values:
                return None
        level = deeper
    return _ValueSize(values, chars, depth)


class _Patterns:
    """Compiles schemas with so many patterns, each of which has its share of the memory."""

    def __init__(self, count: int) -> None:
        share = min(MAX_PATTERN_BYTES, MAX_PATTERNS_BYTES // max(count, 1))
        self._linear = jsonschema_rs.RegexOptions(size_limit=share, dfa_size_limit=share)
        self._backtracking = jsonschema_rs.FancyRegexOptions(size_limit=share, dfa_size_limit=share)

    def compile(self, schema: Json) -> jsonschema_rs.Validator:
        # Offline: a schema may come from a third party, and must not open files or connections.
        return jsonschema_rs.validator_for(schema, mask="it", offline=True, pattern_options=self._linear)

    def without_lookaround(self, schema: Json) -> Json:
        """Return a schema without the patterns that only a backtracking engine can match."""
        match schema:
            case list():
                return [self.without_lookaround(part) for part in schema]
            case dict():
                kept = {name: self.without_lookaround(part) for name, part in schema.items()}
            case _:
                return schema
        if self._needs_backtracking(kept.get("pattern")):
            del kept["pattern"]
        by_pattern = kept.get("patternProperties")
        if isinstance(by_pattern, dict) and any(map(self._needs_backtracking, by_pattern)):
            kept["patternProperties"] = {
                name: part for name, part in by_pattern.items() if not self._needs_backtracking(name)
            }
            for name in ("additionalProperties", "unevaluatedProperties"):
                kept.pop(name, None)  # they would refuse the properties of the dropped patterns
        return kept

    def _needs_backtracking(self, pattern: Json) -> bool:
        return (
            isinstance(pattern, str)
            and not _is_pattern(pattern, self._linear)
            and _is_pattern(pattern, self._backtracking)
        )


def _is_pattern(pattern: str, engine: jsonschema_rs.RegexOptions | jsonschema_rs.FancyRegexOptions) -> bool:
    try:
        jsonschema_rs.validator_for({"pattern": pattern}, offline=True, pattern_options=engine)
    except ValueError:
        return False
    return True
