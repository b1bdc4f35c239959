"""Text files and the `.ralph` folder: bounded reads, whole writes, errors that name the path.

No domain knowledge. Everybody may import it.
"""
