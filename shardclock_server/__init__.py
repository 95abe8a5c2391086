"""The server: each package below is the folder of its name at the repository's root."""
