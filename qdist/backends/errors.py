"""The exception of states and programs."""


class StateError(ValueError):
    """A state was given something that cannot be right, or asked for something that it does not have."""
