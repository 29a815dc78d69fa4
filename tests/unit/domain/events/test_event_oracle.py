"""The official AG-UI package and Holdfast encode and decode the same JSON."""

import json
from typing import Any, Final

import msgspec
import pytest
from ag_ui import core
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, TypeAdapter

from holdfast.domain.events import EVENT_TYPES, decode_event, encode_event, event_type
from holdfast.domain.events.messages import RunAgentInput
from tests.unit.domain.events.strategies import models, structs

THEIRS: Final[TypeAdapter[Any]] = TypeAdapter(core.Event)
MODELS: Final[dict[str, type[BaseModel]]] = {
    str(model.model_fields["type"].default.value): model
    for model in vars(core).values()
    if isinstance(model, type) and issubclass(model, core.BaseEvent) and model is not core.BaseEvent
}
# Each of the 31 types gets its own examples, so a few of each are many.
few: Final = settings(max_examples=25)


def test_both_packages_have_the_same_31_event_types() -> None:
    assert set(EVENT_TYPES) == set(MODELS) == {type_.value for type_ in core.EventType}
    assert len(EVENT_TYPES) == 31


@pytest.mark.parametrize("type_", EVENT_TYPES.values(), ids=EVENT_TYPES)
def test_both_packages_have_the_same_fields(type_: type[msgspec.Struct]) -> None:
    ours = set(type_.__struct_encode_fields__) | {"type"}
    assert ours == {field.alias for field in MODELS[str(type_.__struct_config__.tag)].model_fields.values()}


@pytest.mark.parametrize("type_", EVENT_TYPES.values(), ids=EVENT_TYPES)
@few
@given(data=st.data())
def test_our_events_round_trip_through_the_official_package(type_: type[msgspec.Struct], data: st.DataObject) -> None:
    written = encode_event(data.draw(structs(type_)))
    theirs = THEIRS.validate_json(written)
    assert json.loads(THEIRS.dump_json(theirs, by_alias=True)) == json.loads(written)


@pytest.mark.parametrize("optional", [False, True, None], ids=["required", "all", "some"])
@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)
@few
@given(data=st.data())
def test_events_of_the_official_package_round_trip_through_ours(
    model: type[BaseModel], optional: bool | None, data: st.DataObject
) -> None:
    written = data.draw(models(model, optional=optional)).model_dump_json(by_alias=True).encode()
    ours = decode_event(written)
    assert event_type(ours) == model.model_fields["type"].default.value
    assert json.loads(encode_event(ours)) == json.loads(written)


@few
@given(data=st.data())
def test_requests_of_the_official_package_round_trip_through_ours(data: st.DataObject) -> None:
    written = data.draw(models(core.RunAgentInput)).model_dump_json(by_alias=True).encode()
    ours = msgspec.json.decode(written, type=RunAgentInput)
    assert json.loads(msgspec.json.encode(ours)) == json.loads(written)
