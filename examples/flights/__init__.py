"""Photograph the sky: 336,776 real flights as messages between airports that are actors.

The picture is Chandy and Lamport's own: a sky full of migrating birds that no single photograph can hold, so several
are taken and put together to one that makes sense. Run it with `python -m examples.flights`.
"""
