"""For all tests: a signing key of their own, never the user's; the count of acceptance cases."""

import pytest

from tests.acceptance import AcceptancePlugin, cases, in_full

__all__ = ["cases", "in_full"]  # fixtures


def pytest_configure(config):
    config.pluginmanager.register(AcceptancePlugin(), "rayshot-acceptance")


@pytest.fixture(scope="session", autouse=True)
def own_configuration(tmp_path_factory):
    """Keys made by tests lie in a folder that goes away."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CONFIG_HOME", str(tmp_path_factory.mktemp("config")))
        for name in ("SIGNING_KEY", "TRUSTED_KEYS", "ENCRYPTION_KEY"):
            patch.delenv(f"RAYSHOT_{name}", raising=False)
            patch.delenv(f"RAYSHOT_{name}_FILE", raising=False)
        yield
