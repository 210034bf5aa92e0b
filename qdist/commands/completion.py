"""`qdist completion`: scripts by which bash, zsh and fish complete commands and options, made from the parser."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Callable
from typing import Any, NamedTuple

__all__ = ["SHELLS", "add_completion_command", "script"]

_FILES = {"FILE", "BASE", "FOLDER"}
"""What options that take a file call it."""


class _Option(NamedTuple):
    names: list[str]
    help: str
    choices: list[str]
    takes: str
    """What follows: "" for nothing, "file", or "value"."""


class _Command(NamedTuple):
    name: str
    help: str
    options: list[_Option]
    words: list[str]
    """What its first argument may be, where that is one of a few words; else it is a file."""


def add_completion_command(commands: Any, parser: Callable[[], argparse.ArgumentParser]) -> None:
    """Adds `completion` to the subparsers of the command line. parser: makes the whole command line."""
    completion = commands.add_parser(
        "completion",
        help="print a script by which a shell completes this command",
        description="Prints a script by which a shell completes commands, options and files with the tab key.",
        epilog="examples:\n"
        '  eval "$(qdist completion bash)"                      in ~/.bashrc\n'
        '  eval "$(qdist completion zsh)"                       in ~/.zshrc, behind compinit\n'
        "  qdist completion fish > ~/.config/fish/completions/qdist.fish",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    completion.add_argument("shell", choices=tuple(SHELLS), help="which shell")
    completion.set_defaults(command=lambda options: _print(options, parser()))


def _print(options: argparse.Namespace, parser: argparse.ArgumentParser) -> int:
    print(script(options.shell, parser))
    return 0


def script(shell: str, parser: argparse.ArgumentParser) -> str:
    """The text of the script for one of ``SHELLS``."""
    return SHELLS[shell](_commands(parser))


def _commands(parser: argparse.ArgumentParser) -> list[_Command]:
    (several,) = (a for a in parser._actions if isinstance(a, argparse._SubParsersAction))
    helps = {action.dest: action.help or "" for action in several._choices_actions}
    found = []
    for name, command in several.choices.items():
        options = [_option(action) for action in command._actions if action.option_strings]
        first = next((a for a in command._actions if not a.option_strings), None)
        words = [str(word) for word in first.choices] if first is not None and first.choices else []
        found.append(_Command(name, helps.get(name, ""), options, words))
    return found


def _option(action: argparse.Action) -> _Option:
    names = [name for name in action.option_strings if name.startswith("--") or len(name) == 2]
    choices = [str(choice) for choice in action.choices or ()]
    takes = "" if action.nargs == 0 else "file" if action.metavar in _FILES else "value"
    text = (action.help or "").replace("%%", "%")
    return _Option(names, "" if text == argparse.SUPPRESS else text, choices, takes)


def _bash(commands: list[_Command]) -> str:
    cases, values, firsts = [], [], []
    for command in commands:
        names = " ".join(name for option in command.options for name in option.names)
        cases.append(f"        {command.name}) options={shlex.quote(names)} ;;")
        if command.words:
            firsts.append(f"        {command.name}) words={shlex.quote(' '.join(command.words))} ;;")
        for option in command.options:
            if not option.takes or (option.takes == "file" and not option.choices):
                continue
            pattern = "|".join(f'"{command.name} {name}"' for name in option.names)
            words = f'COMPREPLY=($(compgen -W {shlex.quote(" ".join(option.choices))} -- "$word")); '
            values.append(f"        {pattern}) {words if option.choices else ''}return ;;")
    return "\n".join(
        [
            "# Completion of qdist in bash.",
            "_qdist() {",
            '    local word="${COMP_WORDS[COMP_CWORD]}" before="${COMP_WORDS[COMP_CWORD-1]}"',
            '    local command="${COMP_WORDS[1]}" options="" words=""',
            "    COMPREPLY=()",
            "    if ((COMP_CWORD == 1)); then",
            f'        COMPREPLY=($(compgen -W {shlex.quote(" ".join(c.name for c in commands))} -- "$word"))',
            "        return",
            "    fi",
            '    case "$command $before" in',
            *values,
            "    esac",
            '    case "$command" in',
            *cases,
            "    esac",
            '    case "$command" in',
            *firsts,
            "    esac",
            '    if [[ "$word" == -* ]]; then',
            '        COMPREPLY=($(compgen -W "$options" -- "$word"))',
            '    elif [[ -n "$words" ]]; then',
            '        COMPREPLY=($(compgen -W "$words" -- "$word"))',
            "    else",
            '        COMPREPLY=($(compgen -f -- "$word"))',
            "    fi",
            "}",
            "complete -o filenames -F _qdist qdist",
        ]
    )


def _zsh(commands: list[_Command]) -> str:
    lines = ["#compdef qdist", "_qdist() {", "    local -a commands", "    commands=("]
    lines += [f"        {shlex.quote(f'{c.name}:{_plain(c.help)}')}" for c in commands]
    lines += [
        "    )",
        "    if (( CURRENT == 2 )); then",
        "        _describe command commands",
        "        return",
        "    fi",
    ]
    lines += ["    local command=$words[2]", "    shift words", "    (( CURRENT-- ))", "    case $command in"]
    for command in commands:
        arguments = []
        for option in command.options:
            action = f"({' '.join(option.choices)})" if option.choices else "_files" if option.takes == "file" else " "
            value = f":{option.names[-1].lstrip('-')}:{action}" if option.takes else ""
            arguments += [f"*{name}[{_plain(option.help)}]{value}" for name in option.names]
        arguments.append(f"*:what:({' '.join(command.words)})" if command.words else "*:file:_files")
        quoted = " ".join(map(shlex.quote, arguments))
        lines.append(f"        {command.name}) _arguments {quoted} ;;")
    return "\n".join([*lines, "    esac", "}", "compdef _qdist qdist"])


def _fish(commands: list[_Command]) -> str:
    lines = ["# Completion of qdist in fish.", "complete -c qdist -n __fish_use_subcommand -f"]
    for command in commands:
        about = shlex.quote(_plain(command.help))
        lines.append(f"complete -c qdist -n __fish_use_subcommand -a {command.name} -d {about}")
        inside = f"complete -c qdist -n '__fish_seen_subcommand_from {command.name}'"
        for option in command.options:
            names = " ".join(f"-l {n[2:]}" if n.startswith("--") else f"-s {n[1:]}" for n in option.names)
            value = "" if not option.takes else " -r" if option.takes == "file" else " -x"
            if option.choices:
                value += f" -a {shlex.quote(' '.join(option.choices))}"
            lines.append(f"{inside} {names}{value} -d {shlex.quote(_plain(option.help))}")
        if command.words:
            lines.append(f"{inside} -f -a {shlex.quote(' '.join(command.words))}")
    return "\n".join(lines)


def _plain(text: str) -> str:
    """The first words of a help text, without what shells take for their own."""
    short = text.split(";")[0].split(" (default")[0]
    return "".join(c for c in short if c not in "[]:'\"`\\$()").strip()


SHELLS: dict[str, Callable[[list[_Command]], str]] = {"bash": _bash, "zsh": _zsh, "fish": _fish}
