"""The key-value store of a job, served by rank 0 to who knows its secret: how ranks find and watch each other."""

from qdist.comm.store.client import Address, StoreClient, StoreGone, StoreRefused
from qdist.comm.store.server import StoreServer

__all__ = ["Address", "StoreClient", "StoreGone", "StoreRefused", "StoreServer"]
