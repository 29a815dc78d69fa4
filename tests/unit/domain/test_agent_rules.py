import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.domain.agent import Agent, DaemonSettings, ModeSettings, Permissions, check_agent_name, check_mode
from holdfast.domain.errors import Conflict, Invalid
from holdfast.domain.run import Mode
from holdfast.domain.tool import ToolSpec, check_tool_spec

tool_names = st.from_regex(r"[A-Za-z_][A-Za-z0-9_-]{0,63}", fullmatch=True)
specifiers = st.text(st.characters(min_codepoint=32, exclude_categories=["Cs"]), min_size=1, max_size=20)


@given(name=st.from_regex(r"[a-z0-9][a-z0-9_-]{0,63}", fullmatch=True))
def test_a_name_of_lower_case_letters_and_digits_is_valid(name: str) -> None:
    assert check_agent_name(name) == name


@pytest.mark.parametrize("name", ["", "_a", "-a", "A", "a b", "a.b", "a/b", "..", "a\n", "ä", "a" * 65])
def test_any_other_name_is_rejected(name: str) -> None:
    with pytest.raises(Invalid, match="lower-case letters"):
        check_agent_name(name)


@given(tool=tool_names, specifier=st.none() | specifiers)
def test_every_tool_name_is_valid_in_a_rule(tool: str, specifier: str | None) -> None:
    check_tool_spec(ToolSpec(name=tool, description="", parameters={"type": "object"}))
    rule = tool if specifier is None else f"{tool}({specifier})"
    assert msgspec.convert({"deny": [rule]}, Permissions).deny == [rule]


@pytest.mark.parametrize(
    "rule", ["", "*", "1a", "a b", "bash(", "bash()", "bash(x", "bash)", "bash(x)y", "bash(\n)", "a\n"]
)
def test_a_rule_that_could_never_match_is_refused(rule: str) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({"deny": [rule]}, Permissions)


@pytest.mark.parametrize("mode", [Mode.CHAT, Mode.TASK, Mode.DAEMON])
def test_an_agent_runs_only_in_its_enabled_modes(mode: Mode) -> None:
    for enabled in (True, False):
        modes = {mode.value: ModeSettings(enabled=enabled)}
        agent = msgspec.convert(
            {
                "name": "bot",
                "description": "",
                "models": ["a:b"],
                "instructions": "Help.",
                **msgspec.to_builtins(modes),
            },
            Agent,
        )
        if enabled:
            check_mode(agent, mode)
        else:
            with pytest.raises(Conflict, match=f"{mode}.enabled"):
                check_mode(agent, mode)


def test_the_api_runs_any_agent() -> None:
    off = ModeSettings(enabled=False)
    agent = Agent(
        name="bot",
        description="",
        models=["a:b"],
        instructions="Help.",
        chat=off,
        task=off,
        daemon=DaemonSettings(enabled=False),
    )
    check_mode(agent, Mode.API)
