"""The machine: what holds and changes amplitudes."""
