"""Completion of the names of commands, for shells: static scripts, made from the table of commands.

    eval "$(kafkawire completion bash)"
    eval "$(kafkawire completion zsh)"
    kafkawire completion fish | source

After the name of a job shells complete the names of files.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Mapping
from typing import Final


def bash(lines: Mapping[str, str], words: Mapping[str, Iterable[str]]) -> str:
    """The script for bash: ``lines`` of all commands by their names, the ``words`` that some take."""
    cases = [f'        2:{name}) words="{" ".join(words[name])}" ;;' for name in words]
    return "\n".join(
        (
            "_kafkawire() {",
            '    local words=""',
            '    case "$COMP_CWORD:${COMP_WORDS[1]}" in',
            f'        1:*) words="{" ".join(lines)}" ;;',
            *cases,
            "    esac",
            '    COMPRESPONSE=($(compgen -W "$words" -- "${COMP_WORDS[COMP_CWORD]}"))',
            "}",
            "complete -o bashdefault -o default -F _kafkawire kafkawire",
        )
    )


def zsh(lines: Mapping[str, str], words: Mapping[str, Iterable[str]]) -> str:
    """The script for zsh; its last line serves a file that holds the function itself."""
    return "\n".join(
        (
            "#compdef kafkawire",
            "_kafkawire() {",
            "    local -a lines=(",
            *(f"        {shlex.quote(f'{name}:{line}')}" for name, line in lines.items()),
            "    )",
            '    case "$CURRENT:$words[2]" in',
            "        2:*) _describe command lines ;;",
            *(f"        3:{name}) compadd -- {' '.join(words[name])} ;;" for name in words),
            "        *) _files ;;",
            "    esac",
            "}",
            "compdef _kafkawire kafkawire",
            'if [[ "$funcstack[1]" == _kafkawire ]]; then _kafkawire "$@"; fi',
        )
    )


def fish(lines: Mapping[str, str], words: Mapping[str, Iterable[str]]) -> str:
    """The script for fish."""
    names = (
        f"complete -c kafkawire -n __fish_use_subcommand -f -a {name} -d {shlex.quote(line)}"
        for name, line in lines.items()
    )
    taken = (
        f"complete -c kafkawire -n '__fish_seen_subcommand_from {name}' -f -a '{' '.join(words[name])}'"
        for name in words
    )
    return "\n".join((*names, *taken))


#: Functions that make the script of a shell, by the shell's name.
SHELLS: Final[Mapping[str, Callable[[Mapping[str, str], Mapping[str, Iterable[str]]], str]]] = {
    "bash": bash,
    "zsh": zsh,
    "fish": fish,
}
