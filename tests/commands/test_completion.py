"""`qdist completion`: what shells offer after the tab key is what the parser takes."""

import shutil
import subprocess

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
