"""Drop-in replacements for other packages: change the import and nothing else."""
