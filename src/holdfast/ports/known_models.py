"""The models that are known by name."""

from typing import Protocol

from holdfast.domain.known_model import KnownModel, KnownProvider


class KnownModels(Protocol):
    """What a person may choose from. A model that is not known may work all the same."""

    async def providers(self) -> list[KnownProvider]:
        """Return the providers, those from the settings first; whether one has a key is looked up each time."""

    async def models(self) -> list[KnownModel]:
        """Return the models of built-in providers, by name; prices are those of the day they were first asked for."""
