"""The Pauli strings of a double excitation, which all flip the same four qubits, and their signs."""

DOUBLE = {"XXXY": 1, "XXYX": 1, "XYXX": -1, "YXXX": -1, "YYYX": -1, "YYXY": -1, "YXYY": 1, "XYYY": 1}
