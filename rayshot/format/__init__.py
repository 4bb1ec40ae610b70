"""Bytes: the codec, the manifest, its envelope and encryption, chunks, and the one module that unpickles."""
