"""Other libraries' surfaces over this engine. Nothing here is imported by the core."""
