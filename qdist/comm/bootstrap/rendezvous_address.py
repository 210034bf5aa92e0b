"""Where ranks meet that no MPI launcher started: what env:// and tcp:// name, and who can reach it.

With a secret (secret.py) the store listens on the named address. Without one it is for this user's processes on this
machine alone, so an address of another machine, or one that other machines can reach, is refused.
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Mapping
from urllib.parse import SplitResult

from qdist.comm.bootstrap.secret import HOW_TO_SET, job_secret
from qdist.comm.errors import CommError
from qdist.comm.store.client import Address

__all__ = ["rendezvous_address"]


def rendezvous_address(parts: SplitResult, environ: Mapping[str, str]) -> Address:
    """The address of the store that rank 0 will serve for ``env://`` or ``tcp://host:port``.

    Raises ValueError for a URL that is none, CommError when the variables of env:// do not say, or when other machines
    are to be reached and there is no secret.
    """
    one_machine = False
    if parts.scheme == "env":
        host, port = _master_of(environ)
        # torchrun says how many of the ranks are on this machine; where that is all, it does not matter what the
        # machine is called.
        one_machine = environ.get("LOCAL_WORLD_SIZE", "") == environ.get("WORLD_SIZE")
        several = "LOCAL_WORLD_SIZE" in environ and not one_machine
        named = f"MASTER_ADDR={host}"
    else:
        host, port, several = parts.hostname or "", _port_of(parts), False
        named = f"tcp://{parts.netloc}"
        if not host or not port:
            raise ValueError(f"init_method={named!r}: expected tcp://host:port")
    secret = job_secret(environ)
    if secret is not None:
        return Address((host,), port, secret)
    if one_machine or (_is_this_machine(host) and not several):
        return Address((host,), port)
    raise CommError(
        f"{named} is for ranks on several machines, and they share no secret, so anybody who reaches the port could "
        f"join them: {HOW_TO_SET}. For ranks on one machine name localhost."
    )


def _port_of(parts: SplitResult) -> int:
    try:
        return parts.port or 0
    except ValueError:
        return 0


def _is_this_machine(host: str) -> bool:
    """Whether this is the loopback address or this machine's name. Its other addresses, given as numbers, are not:
    whoever writes one means it to be reached from elsewhere."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        pass
    if host in ("localhost", socket.gethostname(), socket.getfqdn()):
        return True
    try:
        family, kind, protocol, _, where = socket.getaddrinfo(host, 0, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.bind(where)
        return True
    except OSError:
        return False


def _master_of(environ: Mapping[str, str]) -> tuple[str, int]:
    # torchrun's own agent already listens on MASTER_PORT and says so.
    taken = environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True"
    try:
        host, port = environ["MASTER_ADDR"], int(environ["MASTER_PORT"]) + taken
        if not 0 < port < 1 << 16:
            raise ValueError
        return host, port
    except KeyError as missing:
        raise CommError(
            f"RANK and WORLD_SIZE are set, but {missing.args[0]} is not: env:// needs MASTER_ADDR and MASTER_PORT. "
            "Start with `qdist run -n N` or mpirun, or pass init_method='tcp://host:port'."
        ) from None
    except ValueError:
        raise CommError(f"MASTER_PORT={environ['MASTER_PORT']!r} is not a port number") from None
