"""The error with which a fetch of an outcome gives its thread up."""


class FetchRetry(Exception):
    """A fetch gives its place up. Ray tries it again behind all others, and writes a line about it to its log."""
