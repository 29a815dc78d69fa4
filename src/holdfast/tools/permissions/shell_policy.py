"""Shell permissions: every program of a command, and every file it redirects, is decided separately.

deny     one denied part is enough, wherever the command spells it out
allow    the command is in the small grammar, two readers agree on it, and every part is allowed
ask      everything else; the reason names the construct

Where `bash` alone is allowed and no rule denies or asks, commands are not read at all: the sandbox is the border.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Final

from msgspec.structs import replace

from holdfast.domain.content import Json
from holdfast.domain.permission import PermissionAction, PermissionDecision, strictest_decision
from holdfast.tools.permissions.patterns import RuleMatch, normalize_path
from holdfast.tools.permissions.rules import BASH_TOOL, PATH_RULE_ACCESS, PermissionRule, binding_decision
from holdfast.tools.permissions.shell.bash_reader import reading_problem
from holdfast.tools.permissions.shell.parser import parse_script
from holdfast.tools.permissions.shell.scan import scan_names
from holdfast.tools.permissions.shell.script import FileAccess, Redirection, ShellProgram, ShellScript, ShellWords

MAX_NAMED_CONSTRUCTS: Final = 3
"""Constructs that a question names."""

_NAME_IN_CODE: Final = re.compile(r"[A-Za-z0-9_.+-]+")


class ShellPolicy:
    """The rules about shell commands and about the files that they open."""

    def __init__(
        self,
        *,
        deny: Sequence[PermissionRule],
        granted: Sequence[PermissionRule],
        ask: Sequence[PermissionRule],
        allow: Sequence[PermissionRule],
    ) -> None:
        self._deny, self._ask = (
            [rule for rule in rules if rule.tool == BASH_TOOL or rule.tool in PATH_RULE_ACCESS] for rules in (deny, ask)
        )
        self._granted, self._allow = ([rule for rule in rules if rule.tool == BASH_TOOL] for rules in (granted, allow))
        self._denies_all, self._grants_all, self._asks_all, allows_all = (
            next((rule for rule in rules if rule.tool == BASH_TOOL and rule.bare), None)
            for rules in (self._deny, self._granted, self._ask, self._allow)
        )
        self._default_allow = self._grants_all or (allows_all if self._asks_all is None else None)
        """The rule that allows every command that no other rule matches."""
        self._allowed_paths = [rule for rule in (*granted, *allow) if rule.tool in PATH_RULE_ACCESS]
        self._hidden_paths = [
            rule for rule in self._deny if rule.path is not None and PATH_RULE_ACCESS.get(rule.tool) is FileAccess.READ
        ]

    def decide(self, command: Json) -> PermissionDecision:
        """Decide on a command: the strictest decision about one of its parts."""
        if self._denies_all is not None:
            return PermissionDecision(action=PermissionAction.DENY, rule=self._denies_all.text)
        if not isinstance(command, str):
            return PermissionDecision(action=PermissionAction.ASK, reason="the command is not a text")
        if self._default_allow is not None and not self._deny and not self._ask:
            return PermissionDecision(action=PermissionAction.ALLOW, rule=self._default_allow.text)
        script = parse_script(command)
        denied = self._deny_decision(script)
        if denied is not None:
            return denied
        if script.unclear:
            return self._outside_grammar(script)
        decision = strictest_decision([*self._part_decisions(script)])
        if decision.action is PermissionAction.ALLOW and decision.rule is None:
            # Parts that need no rule beside other commands do not allow a shell by themselves.
            decision = self._default()
        problem = reading_problem(script) if decision.action is PermissionAction.ALLOW else None
        return decision if problem is None else self._outside_grammar(replace(script, unclear=(problem,)))

    def _deny_decision(self, script: ShellScript) -> PermissionDecision | None:
        """Return the decision of the first deny rule that matches a part that the command spells out."""
        for words in (*(program.words for program in script.programs), *script.possible):
            for rule in self._deny:
                if rule.command is not None and rule.command.binds(words) is RuleMatch.YES:
                    return PermissionDecision(action=PermissionAction.DENY, rule=rule.text)
            hidden = self._names_hidden_file(words, cwd_changed=script.cwd_changed)
            if hidden is not None:
                return hidden
        for redirection in script.redirections:
            decision = self._decide_redirection(redirection, cwd_changed=script.cwd_changed)
            if decision.action is PermissionAction.DENY:
                return decision
        return None

    def _outside_grammar(self, script: ShellScript) -> PermissionDecision:
        """Require approval of a command that no rule can allow."""
        rule = next((rule.text for rule in self._deny), None)
        constructs = "; ".join(script.unclear[:MAX_NAMED_CONSTRUCTS])
        return PermissionDecision(
            action=PermissionAction.ASK,
            rule=rule,
            reason=f"no rule can allow this command, because it has {constructs}",
            possibly_denied=rule is not None,
        )

    def parts_needing_approval(self, command: str) -> ShellScript:
        """Return the parts of a command that require approval; none if no rule can allow the command."""
        script = parse_script(command)
        if script.unclear:
            return ShellScript(unclear=script.unclear)
        programs = [
            program
            for program in script.programs
            if self._decide_program(program, cwd_changed=script.cwd_changed).action is PermissionAction.ASK
        ]
        redirections = [
            redirection
            for redirection in script.redirections
            if self._decide_redirection(redirection, cwd_changed=script.cwd_changed).action is PermissionAction.ASK
        ]
        return replace(script, programs=tuple(programs) or script.programs, redirections=tuple(redirections))

    def _part_decisions(self, script: ShellScript) -> Iterator[PermissionDecision]:
        for program in script.programs:
            yield self._decide_program(program, cwd_changed=script.cwd_changed)
        for redirection in script.redirections:
            yield self._decide_redirection(redirection, cwd_changed=script.cwd_changed)

    def _decide_program(self, program: ShellProgram, *, cwd_changed: bool) -> PermissionDecision:
        words = program.words
        denied = binding_decision(
            [(rule, rule.command.binds(words)) for rule in self._deny if rule.command is not None],
            PermissionAction.DENY,
        ) or _names_program(self._deny, program, PermissionAction.DENY)
        if denied is not None:
            return denied
        if allowed := _allow_program(self._granted, program):
            return allowed
        if self._grants_all is not None and not program.opaque:
            return PermissionDecision(action=PermissionAction.ALLOW, rule=self._grants_all.text)
        required = binding_decision(
            [(rule, rule.command.binds(words)) for rule in self._ask if rule.command is not None], PermissionAction.ASK
        ) or _names_program(self._ask, program, PermissionAction.ASK)
        if required is not None:
            return required
        if self._asks_all is not None:
            return PermissionDecision(action=PermissionAction.ASK, rule=self._asks_all.text)
        return _allow_program(self._allow, program) or self._without_rule(program)

    def _without_rule(self, program: ShellProgram) -> PermissionDecision:
        if program.transparent:
            return PermissionDecision(action=PermissionAction.ALLOW)
        if self._default_allow is not None and program.opaque:
            strict_rule = next((rule.text for rule in (*self._deny, *self._ask)), None)
            reason = f"`{program.words[0]}` may run anything"
            return PermissionDecision(action=PermissionAction.ASK, rule=strict_rule, reason=reason)
        return self._default()

    def _names_hidden_file(self, words: ShellWords, *, cwd_changed: bool) -> PermissionDecision | None:
        """Deny a command with an argument, or an option value, that names a file which may not be read."""
        for word in filter(None, words[1:] if self._hidden_paths else ()):
            for name in filter(None, {word, word.rpartition("=")[2]}):
                for rule in self._hidden_paths:
                    match = rule.binds_path(normalize_path(name), FileAccess.READ, cwd_changed=cwd_changed)
                    if match is RuleMatch.YES:
                        return PermissionDecision(action=PermissionAction.DENY, rule=rule.text)
        return None

    def _decide_redirection(self, redirection: Redirection, *, cwd_changed: bool) -> PermissionDecision:
        path = None if redirection.path is None else normalize_path(redirection.path)
        for rules, action in ((self._deny, PermissionAction.DENY), (self._ask, PermissionAction.ASK)):
            matches = [(rule, rule.binds_path(path, redirection.access, cwd_changed=cwd_changed)) for rule in rules]
            decision = binding_decision(matches, action)
            if decision is not None:
                return decision
        for rule in self._allowed_paths:
            match = rule.binds_path(path, redirection.access, cwd_changed=cwd_changed)
            if match is RuleMatch.YES and path is not None:
                return PermissionDecision(action=PermissionAction.ALLOW, rule=rule.text)
        if self._default_allow is not None:
            return PermissionDecision(action=PermissionAction.ALLOW, rule=self._default_allow.text)
        if path is None or cwd_changed or path.startswith(("/", "..")):
            reason = "a file outside of the working folder may be opened"
            return PermissionDecision(action=PermissionAction.ASK, reason=reason)
        return PermissionDecision(action=PermissionAction.ALLOW)

    def _default(self) -> PermissionDecision:
        if self._default_allow is not None:
            return PermissionDecision(action=PermissionAction.ALLOW, rule=self._default_allow.text)
        return PermissionDecision(
            action=PermissionAction.ASK, rule=None if self._asks_all is None else self._asks_all.text
        )


def _allow_program(rules: Sequence[PermissionRule], program: ShellProgram) -> PermissionDecision | None:
    for rule in rules:
        if rule.command is not None and rule.command.allows(program.words):
            return PermissionDecision(action=PermissionAction.ALLOW, rule=rule.text)
    return None


def _names_program(
    rules: Sequence[PermissionRule], program: ShellProgram, action: PermissionAction
) -> PermissionDecision | None:
    """Require approval of a program that may run what its words say, if they name the program of a rule."""
    if not program.may_run_words:
        return None
    named = {name for word in program.words[1:] if word for name in (*_NAME_IN_CODE.findall(word), *scan_names(word))}
    matches = [(rule, RuleMatch.MAYBE) for rule in rules if rule.command and rule.command.program in named]
    return binding_decision(matches, action)
