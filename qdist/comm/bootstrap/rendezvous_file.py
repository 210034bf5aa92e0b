"""The file of a file:// rendezvous: rank 0 leaves there where its store is and the token that opens it.

Whoever can write that file decides whom the ranks talk to, and whoever can read it can join them. So it is its owner's
alone, and nobody reads one that is not.
"""

from __future__ import annotations

import errno
import os
import secrets
import stat
from pathlib import Path

from qdist.comm.errors import CommError
from qdist.comm.store.client import Address

__all__ = ["RendezvousFile"]

_LONGEST = 65536


class RendezvousFile:
    """A path at which the ranks of a job leave and find an address."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._written: tuple[int, int] | None = None

    def write(self, address: Address) -> None:
        """Puts the address there, in the place of what an earlier job left. Raises CommError, also for a link and for
        another user's file: the other ranks would not read it."""
        if (old := self._open_old()) is not None:
            os.close(old)
        beside = self.path.with_name(f".{self.path.name}.{secrets.token_hex(8)}")
        try:
            with open(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600), "w") as file:
                file.write(address.to_json())
                status = os.fstat(file.fileno())
            try:
                os.replace(beside, self.path)
            except OSError:
                beside.unlink()
                raise
        except OSError as error:
            raise CommError(f"cannot write the rendezvous file {self.path}: {error}") from error
        self._written = status.st_dev, status.st_ino

    def read(self) -> Address | None:
        """The address, or None while there is none to be trusted: no file yet, or an old one that others may change.

        Raises CommError for a link and for a file of another user.
        """
        descriptor = self._open_old()
        if descriptor is None:
            return None
        with open(descriptor, "rb") as file:
            if os.fstat(descriptor).st_mode & 0o077:
                return None
            try:
                return Address.from_json(file.read(_LONGEST).decode())
            except (CommError, UnicodeDecodeError, OSError):
                return None

    def remove(self) -> None:
        """Takes the file away, if it is still the one that was written here."""
        try:
            status = self.path.lstat()
            if (status.st_dev, status.st_ino) == self._written:
                self.path.unlink()
        except OSError:
            pass

    def _open_old(self) -> int | None:
        """What is there, open for reading, if it is a file of this user's; None if nothing is."""
        why_not = "a rendezvous file must be a file of this user's own. Remove it or take another path."
        try:
            descriptor = os.open(self.path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except FileNotFoundError:
            return None
        except OSError as error:
            if error.errno == errno.ELOOP:
                raise CommError(f"{self.path} is a symbolic link: {why_not}") from None
            raise CommError(f"the rendezvous file {self.path} cannot be read: {error.strerror}; {why_not}") from error
        status = os.fstat(descriptor)
        if status.st_uid != os.geteuid() or not stat.S_ISREG(status.st_mode):
            os.close(descriptor)
            raise CommError(f"{self.path} belongs to user {status.st_uid} or is no plain file: {why_not}")
        return descriptor
