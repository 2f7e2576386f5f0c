"""Mesh generators: CSG solids with sharp features, and human bodies."""
