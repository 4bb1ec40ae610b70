"""The servers of the tests of places."""

from tests.places.conftest import moto, moto_of_the_session, proxy, s3, s3_credentials, s3_of_the_session

__all__ = ["moto", "moto_of_the_session", "proxy", "s3", "s3_credentials", "s3_of_the_session"]  # fixtures
