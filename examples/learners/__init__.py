"""Makes docs/learners, a small storage that Spark can be learnt with: `python -m examples.learners`."""
