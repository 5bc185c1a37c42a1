"""`predict`: compile for devices that are not here, price, simulate, compare and rank."""
