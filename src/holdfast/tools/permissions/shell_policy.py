"""Shell permissions: every program of a command, and every file it opens, is decided separately.

deny     one denied part is enough; a part that a rule possibly matches requires approval
allow    every part must be allowed
unclear  what cannot be parsed requires approval, unless `bash` alone is allowed and no rule denies or asks
"""

from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from holdfast.domain.content import Json
from holdfast.domain.permission import PermissionAction, PermissionDecision, strictest_decision
from holdfast.tools.permissions.patterns import RuleMatch, normalize_path
from holdfast.tools.permissions.rules import BASH_TOOL, PATH_RULE_ACCESS, PermissionRule, binding_decision
from holdfast.tools.permissions.shell.parser import parse_script
from holdfast.tools.permissions.shell.script import FileAccess, Redirection, ShellProgram, ShellScript


class ShellPolicy:
    """The rules that are about a shell and the files that it opens."""

    def __init__(
        self,
        *,
        deny: Sequence[PermissionRule],
        granted: Sequence[PermissionRule],
        ask: Sequence[PermissionRule],
        allow: Sequence[PermissionRule],
    ) -> None:
        self._deny, self._ask = list(filter(_applies_to_shell, deny)), list(filter(_applies_to_shell, ask))
        self._granted = [one for one in granted if one.tool == BASH_TOOL]
        self._allow = [one for one in allow if one.tool == BASH_TOOL]
        self._denies_all, self._grants_all, self._asks_all, allows_all = (
            next((one for one in rules if one.tool == BASH_TOOL and one.bare), None)
            for rules in (self._deny, self._granted, self._ask, self._allow)
        )
        self._open = self._grants_all or (allows_all if self._asks_all is None else None)
        """The rule that allows every command that no other is about."""
        self._open_paths = [one for one in (*granted, *allow) if one.tool in PATH_RULE_ACCESS]

    def decide(self, command: Json) -> PermissionDecision:
        """Return what is done about a command."""
        if self._denies_all is not None:
            return PermissionDecision(action=PermissionAction.DENY, rule=self._denies_all.text)
        if not isinstance(command, str):
            return PermissionDecision(action=PermissionAction.ASK, reason="it is no command")
        if self._open is not None and not self._deny and not self._ask:
            return PermissionDecision(action=PermissionAction.ALLOW, rule=self._open.text)
        decision = strictest_decision([*self._parts(parse_script(command))])
        # What needs no rule beside other commands is no reason to run a shell by itself.
        return self._default() if decision.action is PermissionAction.ALLOW and decision.rule is None else decision

    def parts_needing_approval(self, command: str) -> ShellScript:
        """Return the parts of a command that somebody must be asked about."""
        script = parse_script(command)
        programs = [
            one
            for one in script.programs
            if self._program(one, moved=script.cwd_changed).action is PermissionAction.ASK
        ]
        touched = [
            one
            for one in script.redirections
            if self._file(one, moved=script.cwd_changed).action is PermissionAction.ASK
        ]
        return replace(script, programs=tuple(programs) or script.programs, redirections=tuple(touched))

    def _parts(self, script: ShellScript) -> Iterator[PermissionDecision]:
        """Yield what is decided about each part, and that nothing can be where there is none."""
        for program in script.programs:
            yield self._program(program, moved=script.cwd_changed)
        for touched in script.redirections:
            yield self._file(touched, moved=script.cwd_changed)
        if script.unclear:
            yield PermissionDecision(action=PermissionAction.ASK, reason="; ".join(script.unclear))
        if not script.programs:
            yield self._default()

    def _program(self, program: ShellProgram, *, moved: bool) -> PermissionDecision:
        words = program.words
        binding = binding_decision(
            [(one, one.command.binds(words)) for one in self._deny if one.command is not None], PermissionAction.DENY
        ) or self._names_hidden_file(program, moved=moved)
        if binding is not None:
            return binding
        unbound = self._grants_all if self._grants_all is not None and not program.opaque else None
        return (
            _allow_program(self._granted, program)
            or (None if unbound is None else PermissionDecision(action=PermissionAction.ALLOW, rule=unbound.text))
            or binding_decision(
                [(one, one.command.binds(words)) for one in self._ask if one.command is not None], PermissionAction.ASK
            )
            or (
                None
                if self._asks_all is None
                else PermissionDecision(action=PermissionAction.ASK, rule=self._asks_all.text)
            )
            or _allow_program(self._allow, program)
            or self._without_rule(program)
        )

    def _without_rule(self, program: ShellProgram) -> PermissionDecision:
        """Return what is done about a program that no rule is about."""
        if program.transparent:
            return PermissionDecision(action=PermissionAction.ALLOW)
        if self._open is not None and program.opaque:
            why = f"`{program.words[0]}` may run anything"
            return PermissionDecision(action=PermissionAction.ASK, rule=self._first_strict_rule(), reason=why)
        return self._default()

    def _names_hidden_file(self, program: ShellProgram, *, moved: bool) -> PermissionDecision | None:
        """Refuse a command that names a file which may not be read."""
        hidden = [
            one for one in self._deny if one.path is not None and PATH_RULE_ACCESS.get(one.tool) is FileAccess.READ
        ]
        for word in program.words[1:] if hidden else ():
            for name in {word, (word or "").rpartition("=")[2]} if word else ():
                for one in hidden:
                    if (
                        name
                        and one.binds_path(normalize_path(name), FileAccess.READ, cwd_changed=moved) is RuleMatch.YES
                    ):
                        return PermissionDecision(action=PermissionAction.DENY, rule=one.text)
        return None

    def _file(self, touched: Redirection, *, moved: bool) -> PermissionDecision:
        path = None if touched.path is None else normalize_path(touched.path)
        for rules, verdict in ((self._deny, PermissionAction.DENY), (self._ask, PermissionAction.ASK)):
            matches = [(one, one.binds_path(path, touched.access, cwd_changed=moved)) for one in rules]
            decision = binding_decision(matches, verdict)
            if decision is not None:
                return decision
        for one in self._open_paths:
            if one.binds_path(path, touched.access, cwd_changed=moved) is RuleMatch.YES and path is not None:
                return PermissionDecision(action=PermissionAction.ALLOW, rule=one.text)
        if self._open is not None:
            return PermissionDecision(action=PermissionAction.ALLOW, rule=self._open.text)
        if path is None or moved or path.startswith(("/", "..")):
            return PermissionDecision(
                action=PermissionAction.ASK, reason="a file outside of the working folder may be opened"
            )
        return PermissionDecision(action=PermissionAction.ALLOW)

    def _first_strict_rule(self) -> str | None:
        return next((one.text for one in (*self._deny, *self._ask)), None)

    def _default(self) -> PermissionDecision:
        if self._open is not None:
            return PermissionDecision(action=PermissionAction.ALLOW, rule=self._open.text)
        return PermissionDecision(
            action=PermissionAction.ASK, rule=None if self._asks_all is None else self._asks_all.text
        )


def _applies_to_shell(one: PermissionRule) -> bool:
    return one.tool == BASH_TOOL or one.tool in PATH_RULE_ACCESS


def _allow_program(rules: Sequence[PermissionRule], program: ShellProgram) -> PermissionDecision | None:
    for one in rules:
        if one.command is not None and one.command.allows(program.words):
            return PermissionDecision(action=PermissionAction.ALLOW, rule=one.text)
    return None
