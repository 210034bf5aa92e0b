"""Bytes on disk in blocks: a checksum of each (`sums`), and files that are written past the page cache (`direct`)."""

from qdist.blocks.direct import LARGE, PAGE, DirectFile, empty_at
from qdist.blocks.sums import Checks, PartialSums, block_size, blocks_of, joined

__all__ = ["LARGE", "PAGE", "Checks", "DirectFile", "PartialSums", "block_size", "blocks_of", "empty_at", "joined"]
