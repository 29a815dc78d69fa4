"""The content of the recall index, without the keys and numbers that a rebuild may choose anew."""

from pathlib import Path
from typing import Any

from holdfast.store.recall_items import unpack_keys
from tests.conformance.tables import rows_of


async def index_content(where: str | Path) -> dict[str, Any]:
    """Return the items, terms and counts of all indexes, by space and state, and check that they agree."""
    tables = await rows_of(where)
    indexes = tables["recall_indexes"]
    content = {f"{index['space_key']}.{index['active']}": _index(tables, index) for index in indexes}
    term_keys = {row["term_key"] for row in tables["recall_terms"]}
    assert {row["term_key"] for row in tables["recall_postings"]} <= term_keys
    index_keys = {row["index_key"] for row in indexes}
    assert {row["index_key"] for name in ("recall_terms", "recall_items") for row in tables[name]} <= index_keys
    return content


def _index(tables: dict[str, list[dict[str, Any]]], index: dict[str, Any]) -> dict[str, Any]:
    key = index["index_key"]
    terms = {row["term_key"]: row for row in tables["recall_terms"] if row["index_key"] == key}
    counts: dict[int, dict[str, int]] = {}
    for row in tables["recall_postings"]:
        if row["term_key"] in terms:
            counts.setdefault(row["seq"], {})[terms[row["term_key"]]["term"]] = row["tf"]
    items: dict[tuple[str, int, int], dict[str, Any]] = {}
    for row in tables["recall_items"]:
        if row["index_key"] != key:
            continue
        own = counts.pop(row["seq"], {})
        assert sorted(terms[term]["term"] for term in unpack_keys(row["terms"])) == sorted(own)
        assert row["length"] == sum(own.values())
        name = (row["kind"], row["source_key"], row["passage"])
        assert name not in items
        columns = {column: value for column, value in row.items() if column not in ("index_key", "seq", "terms")}
        items[name] = columns | {"counts": own}
    assert counts == {}
    holding = {row["term"]: sum(row["term"] in item["counts"] for item in items.values()) for row in terms.values()}
    assert {row["term"]: row["df"] for row in terms.values()} == holding
    assert (index["items"], index["length"]) == (len(items), sum(item["length"] for item in items.values()))
    return {"items": items, "terms": holding, "made": (index["analyser"], index["embedder"])}
