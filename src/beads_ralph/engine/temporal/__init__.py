"""The engine on Temporal: one workflow a bead, one long activity on a host, words through updates."""
