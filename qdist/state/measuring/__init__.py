"""Read from a state: probabilities, samples, outcomes, expectation values, inner products."""

__all__: list[str] = []
