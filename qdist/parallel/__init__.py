"""Classical parallelism: each module a small file, a client of the communicator and the tensor core."""
