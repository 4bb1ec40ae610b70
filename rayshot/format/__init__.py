"""Bytes: the codec, the manifest, chunks, signatures, the inert reader and the one module that unpickles."""
