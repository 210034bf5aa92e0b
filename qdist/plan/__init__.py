"""When, and where: the order in which gates run, and the blocks they become."""
