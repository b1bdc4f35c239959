"""The scripted agent: the scripts it follows, and the program that plays them."""
