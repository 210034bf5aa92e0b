"""`qdist completion`: what shells offer after the tab key is what the parser takes."""

import os
import pty
import select
import shutil
import subprocess
import time

import pytest

from qdist.cli import main, parser
from qdist.commands.completion import SHELLS, script

COMMANDS = {"completion", "demo", "info", "plan", "run", "simulate"}


def offered_by_bash(folder, *words: str) -> set[str]:
    """What bash completes the last word to."""
    line = " ".join(f"'{word}'" for word in ("qdist", *words))
    ask = f'COMP_WORDS=({line}); COMP_CWORD={len(words)}; _qdist; printf "%s\\n" "${{COMPREPLY[@]}}"'
    text = f"{script('bash', parser())}\n{ask}"
    done = subprocess.run(["bash", "--norc", "-c", text], cwd=folder, capture_output=True, text=True, check=True)
    assert done.stderr == ""
    return set(done.stdout.split())


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_bash_completes_commands_options_values_and_files(tmp_path) -> None:
    (tmp_path / "bell.qasm").touch()
    assert offered_by_bash(tmp_path, "") >= COMMANDS
    assert offered_by_bash(tmp_path, "si") == {"simulate"}
    assert offered_by_bash(tmp_path, "simulate", "--o") == {"--observable", "--output"}
    assert offered_by_bash(tmp_path, "simulate", "--dtype", "") == {"complex64", "complex128"}
    assert offered_by_bash(tmp_path, "simulate", "--shots", "") == set()
    assert offered_by_bash(tmp_path, "simulate", "be") == {"bell.qasm"}
    assert offered_by_bash(tmp_path, "simulate", "--output", "be") == {"bell.qasm"}
    assert offered_by_bash(tmp_path, "completion", "") == set(SHELLS)


@pytest.mark.parametrize("shell", SHELLS)
def test_scripts_have_every_command_and_option(shell, capsys) -> None:
    assert main(["completion", shell]) == 0
    text = capsys.readouterr().out
    (several,) = (a for a in parser()._actions if a.dest == "name")
    assert set(several.choices) >= COMMANDS
    for name, command in several.choices.items():
        assert name in text
        for action in command._actions:
            for option in (o for o in action.option_strings if o.startswith("--")):
                assert (f"-l {option[2:]}" if shell == "fish" else option) in text


@pytest.mark.parametrize("shell", SHELLS)
def test_shells_read_their_scripts(shell) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"needs {shell}")
    check = ["fish", "--no-execute"] if shell == "fish" else [shell, "-n"]
    done = subprocess.run(check, input=script(shell, parser()), capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.skipif(shutil.which("fish") is None, reason="needs fish")
def test_fish_offers_commands_options_and_values(tmp_path) -> None:
    (tmp_path / "qdist.fish").write_text(script("fish", parser()))

    def offered(line: str) -> set[str]:
        ask = ["fish", "--no-config", "-c", f"source qdist.fish; complete -C '{line}'"]
        done = subprocess.run(
            ask, cwd=tmp_path, env=os.environ | {"HOME": str(tmp_path)}, capture_output=True, text=True
        )
        assert done.stderr == ""
        return {word.split("\t")[0] for word in done.stdout.splitlines()}

    assert offered("qdist ") >= COMMANDS
    assert offered("qdist si") == {"simulate"}
    assert offered("qdist simulate --o") == {"--observable", "--output"}
    assert offered("qdist simulate --dtype ") == {"complex64", "complex128"}
    assert offered("qdist completion ") == set(SHELLS)


@pytest.mark.skipif(shutil.which("zsh") is None, reason="needs zsh")
def test_zsh_offers_commands_options_and_values(tmp_path) -> None:
    (tmp_path / "qdist.zsh").write_text(script("zsh", parser()))
    (tmp_path / ".zshrc").write_text(
        "PROMPT='ready '; autoload -Uz compinit; compinit -u -D; setopt no_beep; source ./qdist.zsh\n"
    )
    for line, words in {
        "qdist si": {"simulate"},
        "qdist simulate --o": {"--observable", "--output"},
        "qdist simulate --dtype complex": {"complex64", "complex128"},
        "qdist completion ": set(SHELLS),
    }.items():
        screen = typed_into_zsh(tmp_path, line + "\t", words)
        assert all(word in screen for word in words), screen


def typed_into_zsh(folder, keys: str, words: set[str]) -> str:
    """What a terminal shows of zsh, once it has shown the words, or after a minute."""
    terminal, other = pty.openpty()
    environ = os.environ | {"ZDOTDIR": str(folder), "HOME": str(folder), "TERM": "vt100"}
    shell = subprocess.Popen(
        ["zsh", "-i"], cwd=folder, env=environ, stdin=other, stdout=other, stderr=other, start_new_session=True
    )
    os.close(other)
    screen, sent, end = "", False, time.monotonic() + 60
    try:
        while time.monotonic() < end and not (sent and all(word in screen for word in words)):
            if select.select([terminal], [], [], 1.0)[0]:
                screen += os.read(terminal, 4096).decode(errors="replace")
            if not sent and "ready " in screen:
                os.write(terminal, keys.encode())
                sent, screen = True, ""
    finally:
        shell.kill()
        shell.wait()
        os.close(terminal)
    return screen
