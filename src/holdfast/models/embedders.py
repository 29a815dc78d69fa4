"""Embedders beside the default: a sentence encoder on disk, and any server with an OpenAI-compatible `/embeddings`."""

import asyncio
import os
from collections.abc import Sequence
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import httpx2
import msgspec

from holdfast.domain.errors import Invalid, Unavailable

if TYPE_CHECKING:
    from holdfast.ports.memory import Vectors

TEXTS_PER_REQUEST: Final = 64
REQUEST_TIMEOUT_SECONDS: Final = 30.0
ENCODER_TOKENS: Final = 256
"""Tokens of a text that an encoder reads; a passage is rarely longer."""
ENCODER_BATCH: Final = 16
MAX_DIMS: Final = 16_384


class OnnxEmbedder:
    """Implements `Embedder` with `model.onnx` and `tokenizer.json` of a folder; the model is loaded on first use.

    The vectors of the tokens are averaged, unless the model has an output with one vector per text.
    """

    def __init__(self, folder: Path) -> None:
        for name in ("model.onnx", "tokenizer.json"):
            if not (folder / name).is_file():
                raise Invalid(f"the folder `{folder}` of the embedder has no file `{name}`", field="recall.embedder")
        self._folder = folder
        model = folder / "model.onnx"
        self.id = f"onnx:{folder.name}:{model.stat().st_size}"

    @property
    def dims(self) -> int:
        """Length of each vector."""
        shape = self._session.get_outputs()[0].shape
        if not isinstance(shape[-1], int):
            raise Unavailable(f"the model of `{self._folder.name}` does not state the length of its vectors")
        return int(shape[-1])

    @property
    def parts(self) -> tuple[int, ...]:
        """One part."""
        return (self.dims,)

    async def embed(self, texts: Sequence[str]) -> "Vectors":
        """Return one normalised row per text."""
        return await asyncio.to_thread(self._embed, texts)

    def _embed(self, texts: Sequence[str]) -> "Vectors":
        import numpy

        rows = [self._encode(texts[at : at + ENCODER_BATCH]) for at in range(0, len(texts), ENCODER_BATCH)]
        return _normalised(numpy.concatenate(rows) if rows else numpy.zeros((0, self.dims)))

    def _encode(self, texts: Sequence[str]) -> Any:
        import numpy

        encoded = [self._tokenizer.encode(text) for text in texts]
        width = max(len(each.ids) for each in encoded)
        ids = numpy.zeros((len(encoded), width), dtype=numpy.int64)
        mask = numpy.zeros((len(encoded), width), dtype=numpy.int64)
        for row, each in enumerate(encoded):
            ids[row, : len(each.ids)] = each.ids
            mask[row, : len(each.ids)] = 1
        given = {"input_ids": ids, "attention_mask": mask, "token_type_ids": numpy.zeros_like(ids)}
        wanted = {each.name for each in self._session.get_inputs()}
        try:
            output = self._session.run(None, {name: value for name, value in given.items() if name in wanted})[0]
        except Exception as exc:
            raise Unavailable(f"the encoder `{self._folder.name}` failed: {exc}") from exc
        if output.ndim == 2:
            return output
        weights = mask[:, :, None].astype(numpy.float32)
        return (output * weights).sum(axis=1) / weights.sum(axis=1)

    @cached_property
    def _session(self) -> Any:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        options.log_severity_level = 3
        return onnxruntime.InferenceSession(str(self._folder / "model.onnx"), options, ["CPUExecutionProvider"])

    @cached_property
    def _tokenizer(self) -> Any:
        from tokenizers import Tokenizer

        tokenizer = Tokenizer.from_file(str(self._folder / "tokenizer.json"))
        tokenizer.enable_truncation(ENCODER_TOKENS)
        tokenizer.no_padding()
        return tokenizer


class _Embedding(msgspec.Struct):
    index: int
    embedding: list[float]


class _Embeddings(msgspec.Struct):
    data: list[_Embedding]


class ApiEmbedder:
    """Implements `Embedder` over an OpenAI-compatible `/embeddings`."""

    def __init__(self, *, url: str, model: str, dims: int, key: str | None = None) -> None:
        self._url = f"{url.rstrip('/')}/embeddings"
        self._model = model
        self._headers = {} if key is None else {"Authorization": f"Bearer {key}"}
        self.dims = dims
        self.id = f"api:{model}:{dims}"

    @property
    def parts(self) -> tuple[int, ...]:
        """One part."""
        return (self.dims,)

    async def embed(self, texts: Sequence[str]) -> "Vectors":
        """Return one normalised row per text."""
        import numpy

        rows: list[list[float]] = []
        async with httpx2.AsyncClient(timeout=REQUEST_TIMEOUT_SECONDS, headers=self._headers) as client:
            for at in range(0, len(texts), TEXTS_PER_REQUEST):
                rows += await self._request(client, list(texts[at : at + TEXTS_PER_REQUEST]))
        return _normalised(numpy.array(rows, dtype=numpy.float32).reshape(len(texts), self.dims))

    async def _request(self, client: httpx2.AsyncClient, texts: list[str]) -> list[list[float]]:
        try:
            response = await client.post(self._url, json={"model": self._model, "input": texts})
        except (httpx2.HTTPError, httpx2.InvalidURL) as exc:
            raise Unavailable(f"the embedder cannot be reached: {exc or type(exc).__name__}") from exc
        if response.status_code != httpx2.codes.OK:
            raise Unavailable(f"the embedder answered with status {response.status_code}")
        try:
            found = sorted(msgspec.json.decode(response.content, type=_Embeddings).data, key=lambda each: each.index)
        except msgspec.DecodeError as exc:
            raise Unavailable(f"the embedder answered with something else than embeddings: {exc}") from exc
        if [each.index for each in found] != list(range(len(texts))):
            raise Unavailable(f"the embedder answered with {len(found)} vectors for {len(texts)} texts")
        wrong = next((len(each.embedding) for each in found if len(each.embedding) != self.dims), None)
        if wrong is not None:
            raise Unavailable(f"the embedder answered with vectors of {wrong} dimensions instead of {self.dims}")
        return [each.embedding for each in found]


def _normalised(rows: Any) -> "Vectors":
    import numpy

    if not numpy.isfinite(rows).all():
        raise Unavailable("the embedder answered with numbers that are not finite")
    lengths = numpy.linalg.norm(rows, axis=1, keepdims=True)
    normalised: Vectors = (rows / numpy.where(lengths > 0, lengths, 1)).astype(numpy.float32)
    return normalised


def open_embedder(
    name: str, *, url: str | None, dims: int | None, key_variable: str | None, folder: Path
) -> OnnxEmbedder | ApiEmbedder:
    """Return the embedder that settings name: `onnx:FOLDER`, relative to the workspace, or `api:MODEL`."""
    kind, _, rest = name.partition(":")
    if kind == "onnx":
        if find_spec("onnxruntime") is None:
            raise Invalid(
                "`onnx:` embedders need a package: run `pip install 'holdfast-agents[onnx]'`", field="recall.embedder"
            )
        return OnnxEmbedder(folder / Path(rest).expanduser())
    if url is None or dims is None:
        raise Invalid(
            f"the embedder `{name}` needs `embedder_url` and `embedder_dims` in the settings `recall`",
            field="recall.embedder",
        )
    key = None if key_variable is None else os.environ.get(key_variable)
    if key_variable is not None and key is None:
        raise Invalid(f"the embedder needs the environment variable `{key_variable}`: set it", field="recall.embedder")
    return ApiEmbedder(url=url, model=rest, dims=dims, key=key)
