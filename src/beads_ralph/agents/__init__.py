"""Programs that play personas: one module per agent CLI, and one line for it in `known`."""
