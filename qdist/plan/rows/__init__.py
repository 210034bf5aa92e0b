"""Circuits for the rows of a batch: small states, each with parameters of its own, in one call of a kernel."""

from qdist.plan.rows.lowering import lowered
from qdist.plan.rows.operations import row_operations
from qdist.plan.rows.records import RowRecords
from qdist.plan.rows.steps import unsupported

__all__ = ["RowRecords", "lowered", "row_operations", "unsupported"]
