"""Wrong changes of the product, of which plays on the fake must notice each.

A mistake counts as noticed where an assertion fails, of the play or of the code. Any other error says that the change
does not fit the code any more. So does a failure of its twin: the same change, with the right behaviour.
"""

import pytest


class Mistakes:
    """By name, what puts a mistake in place. `play(seed)` says that all is well, or fails with an AssertionError."""

    def __init__(self, play, seeds):
        self._play, self._seeds = play, seeds
        self._put_in = {}

    def __iter__(self):
        return iter(self._put_in)

    def mistake(self, owner, name):
        """The function stands in for a method, or for a function of a module. It gets `wrong`, that, and its arguments.

        Where `wrong` is false it must do what the method does.
        """

        def register(change):
            def put_in(patch, *, wrong):
                right = getattr(owner, name)
                patch.setattr(owner, name, lambda *arguments: change(wrong, right, *arguments))

            self._put_in[change.__name__] = put_in

        return register

    def check_noticed(self, name):
        """Fail if no play notices the mistake."""
        for seed in range(self._seeds):
            try:
                self._run(name, seed, wrong=True)
            except AssertionError:
                return
        pytest.fail(f"it survived {self._seeds} plays")

    def check_twin(self, name, seeds=None):
        """Fail if a play fails in which the same change does what is right."""
        for seed in range(seeds or self._seeds):
            self._run(name, seed, wrong=False)

    def _run(self, name, seed, *, wrong):
        with pytest.MonkeyPatch.context() as patch:
            self._put_in[name](patch, wrong=wrong)
            self._play(seed)
