"""Forward and vjp functions on arrays, by subject; `qdist.tensor.rules` lists them all in one table."""
