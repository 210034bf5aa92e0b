"""Forward mode: tangent states, and by them Jacobian- and Hessian-vector products and the metric tensor."""

from qdist.program.tangent.derivatives import TangentProgram

__all__ = ["TangentProgram"]
