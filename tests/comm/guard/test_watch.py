"""What the guard says of a call: where in the user's program it was made."""

import functools
from pathlib import Path
from threading import get_ident

import qdist
from qdist.comm import counting_communicator
from qdist.comm.guard.watch import _where
from qdist.comm.messages.call import Call

PACKAGE = Path(qdist.__file__).parent


def where_from(path: Path) -> str:
    """What is said of a call that a file at this path makes."""
    call = Call("barrier", counting_communicator(2), None, None, thread=get_ident())
    found: dict[str, str] = {}
    exec(compile("\nfound['where'] = where(call)", str(path), "exec"), {"found": found, "where": _where, "call": call})
    return found["where"]


def test_a_call_is_reported_at_the_first_line_outside_of_qdist() -> None:
    for folder in ("programs", "qdist_programs", "qdist2"):
        assert where_from(PACKAGE.parent / folder / "train.py").startswith(
            f"Called at {PACKAGE.parent / folder / 'train.py'}:2 in <module>"
        )
    inside = where_from(PACKAGE / "state" / "exchange.py")
    assert inside.startswith(f"Called at {__file__}:")


def test_a_call_by_way_of_pythons_own_library_is_reported_at_the_program() -> None:
    assert where_from(Path(functools.__file__)).startswith(f"Called at {__file__}:")
    installed = Path(functools.__file__).parent / "site-packages" / "theirs" / "train.py"
    assert where_from(installed).startswith(f"Called at {installed}:2")
