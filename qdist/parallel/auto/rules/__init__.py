"""How each operator may be spread over a mesh axis, and which way is cheapest."""

from qdist.parallel.auto.rules.operator_rules import register_form

__all__ = ["register_form"]
