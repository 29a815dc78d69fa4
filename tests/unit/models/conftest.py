"""A small file of certificates, because each client of a provider reads all of them: a third of the time of a test."""

import pytest

from tests.support.certificates import write_certificate


@pytest.fixture(scope="session")
def few_certificates(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(write_certificate(tmp_path_factory.mktemp("certificates") / "one.pem", "localhost"))


@pytest.fixture(autouse=True)
def read_few_certificates(few_certificates: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", few_certificates)
