"""Where beads live: the contract of a store, the rules that every store keeps, and one package per kind.

Everything above talks to a store through its protocol. The two stores do not know one another.
"""
