"""Circuits of Qiskit as ours and back."""
