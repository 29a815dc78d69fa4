"""What an agent may do in a shell: every program of a command, and every file that it opens, is decided by itself.

deny     one part that a rule denies is enough; a part that it may be about is asked for
allow    every part must be allowed
unclear  what cannot be read is asked for, unless `bash` alone is allowed and no rule denies or asks for anything
"""

from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from holdfast.domain.content import Json
from holdfast.domain.permission import PermissionAction, PermissionDecision, strictest_decision
from holdfast.tools.permissions.match import Match
from holdfast.tools.permissions.paths import normal
from holdfast.tools.permissions.rules import Rule, bound
from holdfast.tools.permissions.shell.found import Access, Program, Script, Touched
from holdfast.tools.permissions.shell.parse import parse
from holdfast.tools.permissions.subjects import BASH, BINDING


class ShellPolicy:
    """The rules that are about a shell and the files that it opens."""

    def __init__(
        self, *, deny: Sequence[Rule], granted: Sequence[Rule], ask: Sequence[Rule], allow: Sequence[Rule]
    ) -> None:
        self._deny, self._ask = list(filter(_is_about_shells, deny)), list(filter(_is_about_shells, ask))
        self._granted = [one for one in granted if one.tool == BASH]
        self._allow = [one for one in allow if one.tool == BASH]
        self._denies_all, self._grants_all, self._asks_all, allows_all = (
            next((one for one in rules if one.tool == BASH and one.bare), None)
            for rules in (self._deny, self._granted, self._ask, self._allow)
        )
        self._open = self._grants_all or (allows_all if self._asks_all is None else None)
        """The rule that allows every command that no other is about."""
        self._open_paths = [one for one in (*granted, *allow) if one.tool in BINDING]

    def decide(self, command: Json) -> PermissionDecision:
        """Return what is done about a command."""
        if self._denies_all is not None:
            return PermissionDecision(verdict=PermissionAction.DENY, rule=self._denies_all.text)
        if not isinstance(command, str):
            return PermissionDecision(verdict=PermissionAction.ASK, reason="it is no command")
        if self._open is not None and not self._deny and not self._ask:
            return PermissionDecision(verdict=PermissionAction.ALLOW, rule=self._open.text)
        decision = strictest_decision([*self._parts(parse(command))])
        # What needs no rule beside other commands is no reason to run a shell by itself.
        return self._default() if decision.verdict is PermissionAction.ALLOW and decision.rule is None else decision

    def asked_for(self, command: str) -> Script:
        """Return the parts of a command that somebody must be asked about."""
        script = parse(command)
        programs = [
            one for one in script.programs if self._program(one, moved=script.moved).verdict is PermissionAction.ASK
        ]
        touched = [one for one in script.touched if self._file(one, moved=script.moved).verdict is PermissionAction.ASK]
        return replace(script, programs=tuple(programs) or script.programs, touched=tuple(touched))

    def _parts(self, script: Script) -> Iterator[PermissionDecision]:
        """Yield what is decided about each part, and that nothing can be where there is none."""
        for program in script.programs:
            yield self._program(program, moved=script.moved)
        for touched in script.touched:
            yield self._file(touched, moved=script.moved)
        if script.unclear:
            yield PermissionDecision(verdict=PermissionAction.ASK, reason="; ".join(script.unclear))
        if not script.programs:
            yield self._default()

    def _program(self, program: Program, *, moved: bool) -> PermissionDecision:
        words = program.words
        binding = bound(
            [(one, one.command.binds(words)) for one in self._deny if one.command is not None], PermissionAction.DENY
        ) or self._named(program, moved=moved)
        if binding is not None:
            return binding
        unbound = self._grants_all if self._grants_all is not None and not program.hides else None
        return (
            _allowed(self._granted, program)
            or (None if unbound is None else PermissionDecision(verdict=PermissionAction.ALLOW, rule=unbound.text))
            or bound(
                [(one, one.command.binds(words)) for one in self._ask if one.command is not None], PermissionAction.ASK
            )
            or (
                None
                if self._asks_all is None
                else PermissionDecision(verdict=PermissionAction.ASK, rule=self._asks_all.text)
            )
            or _allowed(self._allow, program)
            or self._usual(program)
        )

    def _usual(self, program: Program) -> PermissionDecision:
        """Return what is done about a program that no rule is about."""
        if program.transparent:
            return PermissionDecision(verdict=PermissionAction.ALLOW)
        if self._open is not None and program.hides:
            why = f"`{program.words[0]}` may run anything"
            return PermissionDecision(verdict=PermissionAction.ASK, rule=self._rule_at_stake(), reason=why)
        return self._default()

    def _named(self, program: Program, *, moved: bool) -> PermissionDecision | None:
        """Refuse a command that names a file which may not be read."""
        hidden = [one for one in self._deny if one.path is not None and BINDING.get(one.tool) is Access.READ]
        for word in program.words[1:] if hidden else ():
            for name in {word, (word or "").rpartition("=")[2]} if word else ():
                for one in hidden:
                    if name and one.binds_path(normal(name), Access.READ, moved=moved) is Match.YES:
                        return PermissionDecision(verdict=PermissionAction.DENY, rule=one.text)
        return None

    def _file(self, touched: Touched, *, moved: bool) -> PermissionDecision:
        path = None if touched.path is None else normal(touched.path)
        for rules, verdict in ((self._deny, PermissionAction.DENY), (self._ask, PermissionAction.ASK)):
            matches = [(one, one.binds_path(path, touched.access, moved=moved)) for one in rules]
            decision = bound(matches, verdict)
            if decision is not None:
                return decision
        for one in self._open_paths:
            if one.binds_path(path, touched.access, moved=moved) is Match.YES and path is not None:
                return PermissionDecision(verdict=PermissionAction.ALLOW, rule=one.text)
        if self._open is not None:
            return PermissionDecision(verdict=PermissionAction.ALLOW, rule=self._open.text)
        if path is None or moved or path.startswith(("/", "..")):
            return PermissionDecision(
                verdict=PermissionAction.ASK, reason="a file outside of the working folder may be opened"
            )
        return PermissionDecision(verdict=PermissionAction.ALLOW)

    def _rule_at_stake(self) -> str | None:
        return next((one.text for one in (*self._deny, *self._ask)), None)

    def _default(self) -> PermissionDecision:
        if self._open is not None:
            return PermissionDecision(verdict=PermissionAction.ALLOW, rule=self._open.text)
        return PermissionDecision(
            verdict=PermissionAction.ASK, rule=None if self._asks_all is None else self._asks_all.text
        )


def _is_about_shells(one: Rule) -> bool:
    return one.tool == BASH or one.tool in BINDING


def _allowed(rules: Sequence[Rule], program: Program) -> PermissionDecision | None:
    for one in rules:
        if one.command is not None and one.command.allows(program.words):
            return PermissionDecision(verdict=PermissionAction.ALLOW, rule=one.text)
    return None
