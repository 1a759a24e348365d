"""The dashboard: what the user chose, what follows from it, and the pictures of it."""
