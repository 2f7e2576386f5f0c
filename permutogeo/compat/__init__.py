"""Other packages' interfaces over this library, so that changing the import is the migration."""
