"""What is checked before anything is lost: arguments, that states belong together, that ranks were given the same."""

__all__: list[str] = []
