"""The board in the terminal: what it shows as plain lines, and the screen that shows them."""
